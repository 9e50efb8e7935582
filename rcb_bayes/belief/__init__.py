"""Users' beliefs as PyMC models: reading them, drawing from them, evaluating them."""

from rcb_bayes.belief.files import GalleryEntry, gallery, load_prior
from rcb_bayes.belief.prior import Prior

__all__ = ["GalleryEntry", "Prior", "gallery", "load_prior"]
