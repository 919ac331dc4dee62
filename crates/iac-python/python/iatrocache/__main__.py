"""``python -m iatrocache`` is the command ``iac``."""

import sys

from . import _native


def main():
    """Run the command and end the process."""
    sys.exit(_native.run_command(["iac", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
