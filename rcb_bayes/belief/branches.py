"""Whether a formula may be another one in some draws: a switch, a maximum or a whole number among its latents.

A smooth formula of continuous latents that holds in a few draws holds in all of them. One that branches may follow a
formula that those few draws never met.
"""

from typing import Any

import numpy as np
from pymc.distributions.censored import CensoredRV
from pymc.distributions.distribution import DiracDeltaRV
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import AllocDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.products import KroneckerProduct
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.math import Dot, Prod, Sum
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor

from rcb_bayes.belief.graph import is_move, is_one_piece, is_random_op
from rcb_bayes.belief.separation import Dependence

_SMOOTH_ELEMENTWISE = (
    *(scalar.Add, scalar.Sub, scalar.Mul, scalar.TrueDiv, scalar.Neg, scalar.Reciprocal, scalar.Second),
    *(scalar.Identity, scalar.Exp, scalar.Exp2, scalar.Expm1, scalar.Log, scalar.Log2, scalar.Log10, scalar.Log1p),
    *(scalar.Sqr, scalar.Sqrt, scalar.Pow, scalar.Sin, scalar.Cos, scalar.Tan, scalar.Sinh, scalar.Cosh, scalar.Tanh),
    *(scalar.ArcSin, scalar.ArcCos, scalar.ArcTan, scalar.ArcSinh, scalar.ArcCosh, scalar.ArcTanh),
    *(scalar_math.Sigmoid, scalar_math.Softplus, scalar_math.Erf, scalar_math.Erfc),
)
_SMOOTH = (
    *(Sum, Prod, CumOp, Dot, Cholesky, MatrixInverse, SolveBase, Softmax, Einsum, KroneckerProduct, AllocDiag),
    *(Shape, Shape_i, IncSubtensor, AdvancedIncSubtensor),
)


def may_branch(variable: Any, x: Any) -> bool:
    """Whether a graph of x and of latents may be another function of x in some draws than in most."""
    depends = Dependence(x)
    nodes = {part.owner: None for part in ancestors([variable]) if part.owner is not None and depends.on_random(part)}
    return not all(_is_smooth(node) for node in nodes)


def _is_smooth(node: Any) -> bool:
    if is_random_op(node):
        return _is_continuous(node)
    op: Any = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    if isinstance(op, Elemwise):
        inner: Any = op.scalar_op
        is_cast = isinstance(inner, scalar.Cast) and "float" in inner.o_type.dtype
        return is_cast or isinstance(inner, _SMOOTH_ELEMENTWISE)
    return is_move(node) or isinstance(op, _SMOOTH)


def _is_continuous(node: Any) -> bool:
    """Whether no value of what is drawn has a probability of its own."""
    if isinstance(node.op, DiracDeltaRV | CensoredRV) or is_one_piece(node):
        return False
    drawn = [out for out in node.outputs if not isinstance(out.type, RandomType)]
    return all(np.dtype(out.type.dtype).kind == "f" for out in drawn)
