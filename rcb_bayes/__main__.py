"""``python -m rcb_bayes`` is ``rcb``."""

from rcb_bayes.cli import main

if __name__ == "__main__":
    main()
