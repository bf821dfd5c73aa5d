"""`python -m medcoder`."""

from medcoder.cli import main

if __name__ == "__main__":
    main()
