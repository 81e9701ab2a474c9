"""``python -m polinfer``: the command line."""

import sys

from polinfer.cli import main

sys.exit(main())
