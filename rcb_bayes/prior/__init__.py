"""Users' beliefs as PyMC models: reading them, drawing from them, evaluating them."""

from rcb_bayes.prior.belief import Prior
from rcb_bayes.prior.files import GalleryEntry, gallery, load_prior

__all__ = ["GalleryEntry", "Prior", "gallery", "load_prior"]
