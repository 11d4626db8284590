"""Run the command line: ``python -m rankwise``."""

from rankwise.cli.app import main

if __name__ == "__main__":
    main()
