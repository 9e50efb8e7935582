"""What the paper says, row by row: its claims, tables and figures, and where our answer to each comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A claim about a setting.

    Attributes
    ----------
    claims : how ``claims.csv`` names it; more than one name is more than one way to judge it
    text : what it says
    measure : what our figure is, that of the first way
    number : the paper's figure
    """

    claims: tuple[str, ...]
    text: str
    measure: str
    number: str = ""


_GAIN = Said(
    claims=(
        "gain above -epsilon (realised)",
        "gain above -epsilon (audited, user)",
        "gain above -epsilon (audited, proof)",
    ),
    text="the gain stays above -epsilon",
    measure="least realised gain of a stretch of rounds",
    number="above -.05 (Setting 3: -.01 to -.05)",
)
_TREND = Said(
    claims=("upward trend of the gain",),
    text="the gain rises during exploitation",
    measure="least slope of the gain per log t, in exploitation",
)
_SUBLINEAR = Said(
    claims=("regret is sublinear (last tenfold of rounds)",),
    text="regret is sublinear",
    measure="largest exponent of t",
    number="exponent 1/2",
)

SETTINGS: dict[str, tuple[Said, ...]] = {
    "setting-1": (
        _GAIN,
        _TREND,
        _SUBLINEAR,
        Said(
            claims=("regret at the level of 1e5",),
            text="regret at T = 100,000",
            measure="geometric mean of regrets",
            number="10^5",
        ),
        Said(
            claims=("regret with K = 10 exceeds that with 3 and 5",),
            text="regret with K = 10 is far above that with 3 and 5",
            measure="regret at K = 10 less that at 5",
        ),
        Said(
            claims=("cost grows like K cubed (regret)", "cost grows like K cubed (cold start)"),
            text="the cold start, and with it the cost, grows like K cubed",
            measure="exponent of K in regret",
            number="exponent 3",
        ),
        Said(
            claims=("mild in d (an exponent below that of K)",),
            text="the number of features matters little",
            measure="exponent of K less that of d",
        ),
    ),
    "setting-2": (
        Said(
            claims=("regret at the level of 1e3",),
            text="regret with an ad hoc N",
            measure="geometric mean of regrets",
            number="10^3",
        ),
        Said(
            claims=("regret of ad hoc N considerably below Setting 1's",),
            text="that is considerably less than Setting 1's",
            measure="Setting 1's regret over it",
            number="100 times",
        ),
        Said(
            claims=("ad hoc N gives negative gains (realised)",),
            text="gains are negative over some periods",
            measure="least realised gain of a stretch of rounds",
        ),
        Said(
            claims=("negative gains more pronounced as d grows",),
            text="more so as d grows, above all for K = 10",
            measure="lowest gain at d = 3 less that at d = 10",
        ),
        Said(
            claims=("N = 1,000: gain negative for most cells with d of 5 or 10",),
            text="with N = 1,000, too, in most cells with d of 5 or 10",
            measure="lowest gain",
        ),
        Said(
            claims=("ad hoc N breaks the constraint (audited, user)",),
            text="ad hoc N is not epsilon-DBIC",
            measure="margin that decides the audits",
        ),
    ),
    "setting-3": (
        _GAIN,
        _TREND,
        _SUBLINEAR,
        Said(
            claims=("regret falls with epsilon",),
            text="regret falls as epsilon grows",
            measure="regret at epsilon .01 less that at .05",
        ),
        Said(
            claims=("regret larger for small prior variance",),
            text="regret at variance 1/10 is much larger than at 1/5 and 1/3",
            measure="regret at variance 1/10 less that at 1/3",
        ),
    ),
    "setting-4": (
        _GAIN,
        _TREND,
        _SUBLINEAR,
        Said(
            claims=("linear growth has the largest gain",),
            text="linear growth has the largest gain",
            measure="least lead of linear growth in gain",
        ),
        Said(
            claims=("gain grows with prior variance",),
            text="the gain grows with prior variance",
            measure="gain at variance .1 less that at .02",
        ),
        Said(
            claims=("inflation schedules alike (within 10 %)",),
            text="regret is much the same under every schedule",
            measure="largest difference, as a share of regret",
        ),
        Said(
            claims=("regret larger for small prior variance",),
            text="regret falls as prior variance grows",
            measure="regret at variance .02 less that at .1",
        ),
        Said(
            claims=("schedules differ less where variance is large",),
            text="schedules differ less where variance is large",
            measure="range in per cent at variance .02 less that at .1",
        ),
    ),
}
KINDS = ("theorem", "measured", "fixed", "uniform", "personalised")
NAMES = {
    "theorem": "Theorem 1, the paper's constants",
    "measured": "Theorem 1, constants measured",
    "fixed": "fixed N",
    "uniform": "sampled, one rate",
    "personalised": "sampled, a rate each",
}
OWN = ("theorem", "measured", "fixed")
"""Plans that the paper may have run: it does not say which."""

FIGURES = (
    (
        "Table 1",
        "what others assume",
        "",
        "their policies run side by side: [comparison](measured/comparison.md)",
    ),
    ("Table 2", "RCB's and the physician's doses by the right one", "table 2", ""),
    ("Figure 1", "the algorithm as a drawing", "", "nothing to reproduce"),
    ("Figure 2", "share of wrong doses over patients, by epsilon and variance", "figure 2", ""),
    ("Figure 3, upper", "Setting 1: gain and regret by d and K", "setting-1", ""),
    ("Figure 3, lower", "Setting 2: the same with N = 10", "setting-2 N = 10", ""),
    ("Figure 4", "Setting 3: gain and regret by epsilon and variance (its caption says Setting 2)", "setting-3", ""),
    ("Figure 5", "Setting 4: gain and regret by variance and schedule (its caption says Setting 2)", "setting-4", ""),
    ("Figure 6", "Setting 2 with N = 100", "setting-2 N = 100", ""),
    ("Figure 7", "Setting 2 with N = 1,000", "setting-2 N = 1,000", ""),
    ("Figure 8", "warfarin: regret and gain by epsilon and variance", "figure 8", ""),
)

REVERSED = (
    (
        "Regret over prior variance, Settings 3 and 4",
        "The paper: the smaller the variance, the larger the regret, since firm opinions need a long cold start. "
        "Here regret grows with the variance. True coefficients are drawn from the prior, so that the "
        "gaps between arms "
        "grow with its standard deviation, and every wrong recommendation costs more. The reason that the paper gives "
        "does not work through its own formula: the smallest eigenvalue phi0 in N is that of the users' features, "
        "not of the prior, so that N is the same at every variance. With tau* measured, which shrinks "
        "with the variance, N grows as the variance falls, and then the claim holds in Setting 3 on the sphere, where "
        "these cold starts end; on the orthant they do not. The paper does not say how it drew the true "
        "coefficients; with coefficients that do not depend on the prior the sign could be another.",
    ),
    (
        "Error over epsilon, warfarin",
        "The paper: the error is lowest, .35, at the tightest budget and above .40 at the loosest; its "
        "appendix has regret "
        "fall as epsilon grows. A larger epsilon allows a higher rate, so that the cold start is shorter, and all that "
        "follows is the same. Here the error does not move with epsilon beyond its own error, neither to the letter "
        "nor as picked in view. Text and appendix of the paper contradict each other on this.",
    ),
    (
        "Regret over prior variance, warfarin",
        "The paper: the smaller the variance, .4, the larger the regret, for a long cold start. Here cold starts take "
        "about a hundred of 5,528 patients at any variance, and to the letter the error grows with the variance: the "
        "plain spread goes by the posterior's error, which is larger under a wider prior that loosens besides, so that "
        "more patients get another dose than the one that looks best.",
    ),
    (
        "A rising gain",
        "The paper: the gain rises during exploitation. Here it jumps as the cold start ends, see the figures of "
        "Settings 1 and 2, and stays level after that: N samples of each arm tell nearly all that there is to tell. "
        "Where N is small it goes on rising a little. A jump would be a rise, too, to who looks at a whole curve; the "
        "rows above are about exploitation alone.",
    ),
    (
        "Cubic growth in K",
        "The theorem's N grows like K cubed, and its cold start like K to the fourth. At T = 100,000 "
        "most of these cold "
        "starts do not end, so that what is seen of regret is that of a platform which never leaves its first stage: "
        "it grows with K like the gap between the best arm and an average one.",
    ),
)

SILENT = (
    ("who the users are", "no law of x: the unit sphere and its positive orthant are both run"),
    ("K of Setting 1", "2, 5 and 10 where it is set up, 3, 5 and 10 where it is discussed: all four are run"),
    ("sigma of Settings 3 and 4, tau and rho there", "as in Setting 1 where none are given: .05, .01, .95"),
    (
        "the columns of Figure 5",
        "prior margins tau by its text, prior variances by what was set up: variances are run, tau is .01",
    ),
    ("the true coefficients", "not said: drawn from the prior"),
    ("tau* of Theorem 1's N", "not said for any setting: .01, as tau, and measured"),
    (
        "the plans that were run",
        "with the theorem's N most cold starts outlast T, so figures that show exploitation come from another N",
    ),
    (
        "what a gain is",
        "not defined: realised gain over the best rival, by all that the platform knows, and audits of what users "
        "expect, who know less. Where arms are alike a sampled plan explores everybody: its realised gain falls below "
        "-epsilon, and no user expects to lose",
    ),
    (
        "prior variances in Settings 1 to 3",
        "Assumption 4 lets them grow, the settings do not say how: they stay as they are",
    ),
    (
        "warfarin: who needs which dose",
        "33 / 54 / 13 % in Section 5.1, 27 / 60 / 13 % in Table 2: the first counts 21 mg a week as low, the second as "
        "medium. Table 2's rule is run",
    ),
    ("warfarin: rewards", "two rules, 0 or 1 and scaled doses: both are run"),
    ("warfarin: N", "Theorem 1 asks for more samples than there are patients: fixed and sampled plans stand in"),
)
