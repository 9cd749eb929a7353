"""How the command line ends, for scripts."""

ERROR = 1  # something the user can act on, one line on stderr
USAGE = 2
NOT_CERTIFIED = 3  # within the budget; the result is printed and saved
INTERNAL_ERROR = 70  # a bug of ours
INTERRUPTED = 130  # by Ctrl-C; the partial result is printed and saved
BROKEN_PIPE = 141  # the reader of our output has closed it
