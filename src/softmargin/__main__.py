"""`python -m softmargin`: the command line."""

import sys

from softmargin.cli.main import main

sys.exit(main())
