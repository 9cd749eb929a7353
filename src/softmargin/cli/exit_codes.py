"""How the command line ends, for scripts."""

ERROR = 1  # something the user can act on, one line on stderr
USAGE = 2  # an option is wrong, or does not go with the others
NOT_CERTIFIED = 3  # within the budget; the result is printed and saved
INTERNAL_ERROR = 70  # a bug of ours
INTERRUPTED = 130  # by Ctrl-C; the partial result is printed and saved
BROKEN_PIPE = 141  # the reader of our output has closed it
TERMINATED = 143  # by SIGTERM; as by Ctrl-C
IN_WORDS = """\
exit codes: 0 done; 1 error, one line on stderr; 2 wrong usage, or options
that do not go together; 3 the certificate did not meet the tolerance within
the budget (the result is printed and saved all the same); 130 interrupted, 143 terminated
(likewise)."""
