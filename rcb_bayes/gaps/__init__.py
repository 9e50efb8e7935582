"""Prior-posterior gaps, and the paper's assumptions judged by them."""
