"""Entry point of ``python -m tarmac``."""

from tarmac.cli import main

if __name__ == "__main__":
    main()
