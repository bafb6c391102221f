"""`python -m ramledger`: the command, of just this interpreter's installation."""

import sys

from ramledger.cli.main import main

sys.exit(main())
