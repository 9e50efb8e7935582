// Reference evaluator of a distilled rule (rule.json): the same numbers as rcb_bayes gives, to the last bit.
// x: a user's features in the order of rule.features; saturated: labels of arms that have their samples.

const dot = (w, x) => w.slice(1).reduce((sum, value, j) => sum + value * x[j + 1], w[0] * x[0]);

function valuesOf({ weights, thresholds, below, above, values, cuts }, x) {
  let at = thresholds.length ? 0 : -1; // a split from 0 on, leaf k as -1 - k, which is ~k
  while (at >= 0) at = dot(weights[at], x) <= thresholds[at] ? below[at] : above[at];
  const looks = cuts ? looksOf(cuts.hopes, x) : []; // at users, beside their features: leads of arms, and the crowd
  const isAbove = looks.map((look, group) => dot(cuts.weights[~at][group], [...x, ...look]) > cuts.thresholds[~at][group]);
  return values[~at].flat().map((low, k) => (cuts && isAbove[cuts.groups[k]] ? cuts.above[~at][k] : low));
}

function looksOf({ means, arms, width }, x) {
  const hopes = means.map((mean) => dot(mean, x));
  const best = Math.max(...hopes);
  const near = hopes.map((hope) => Math.max(1 - (best - hope) / width, 0));
  const crowd = near.reduce((sum, value) => sum + value * value, 0);
  return arms.map((own) => [Math.max(...hopes.filter((_, k) => own[k])) - best, crowd]);
}

function rate(rule, x, saturated) {
  const row = rule.table ? rule.table.findIndex((user) => user.every((value, j) => value === x[j])) : 0;
  if (row < 0) throw new Error("unknown user");
  if (saturated.length === 0 || saturated.length === rule.arms.length) return 1;
  const { stages, levels, promoted_by: means } = rule.rates;
  if (levels.includes(saturated.length)) { // by the arm that is promoted, of tied ones the first
    const hopes = rule.table ? means[row] : means.map((mean) => dot(mean, x));
    const open = hopes.map((hope, k) => (saturated.includes(rule.arms[k]) ? -Infinity : hope));
    const best = Math.max(...open);
    const first = open.findIndex((hope) => hope >= best - 1e-12 * Math.max(Math.abs(best), 1));
    return valuesOf(rule.rates, x)[levels.indexOf(saturated.length) * rule.arms.length + first];
  }
  const firsts = rule.alike.flatMap((arms) => arms.slice(0, arms.filter((arm) => saturated.includes(arm)).length));
  const is = (stage) => stage.length === firsts.length && stage.every((arm) => firsts.includes(arm));
  if ((stages.length || levels.length) && !stages.some(is)) throw new Error("no such stage");
  return valuesOf(rule.rates, x)[Math.max(stages.findIndex(is), 0)];
}

function guard(rule, x, epoch) {
  const factors = rule.guards ? valuesOf(rule.guards, x) : rule.arms.map(() => 1);
  const first = rule.arms.length * Math.min(epoch, factors.length / rule.arms.length - 1);
  return factors.slice(first, first + rule.arms.length);
}

if (typeof module !== "undefined") module.exports = { valuesOf, rate, guard };
