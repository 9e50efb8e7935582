// Reference evaluator of a distilled rule (rule.json): the same numbers as rcb_bayes gives, to the last bit.
// x: a user's features in the order of rule.features; saturated: labels of arms that have their samples.
"use strict";

function leafOf(tree, x) {
  let at = tree.thresholds.length ? 0 : -1; // a split from 0 on, leaf k as -1 - k
  while (at >= 0) {
    let sum = tree.weights[at][0] * x[0];
    for (let j = 1; j < x.length; j++) sum += tree.weights[at][j] * x[j];
    at = sum <= tree.thresholds[at] ? tree.below[at] : tree.above[at];
  }
  return -1 - at;
}

function rate(rule, x, saturated) {
  if (rule.table && !rule.table.some((row) => row.every((value, j) => value === x[j]))) throw new Error("unknown user");
  if (saturated.length === 0 || saturated.length === rule.arms.length) return 1;
  const firsts = rule.alike.flatMap((arms) => arms.slice(0, arms.filter((arm) => saturated.includes(arm)).length));
  const is = (stage) => stage.length === firsts.length && stage.every((arm) => firsts.includes(arm));
  const column = rule.rates.stages.length ? rule.rates.stages.findIndex(is) : 0;
  if (column < 0) throw new Error("no such stage");
  return rule.rates.values[leafOf(rule.rates, x)][column];
}

function guard(rule, x, epoch) {
  if (!rule.guards) return rule.arms.map(() => 1);
  const epochs = rule.guards.values[leafOf(rule.guards, x)];
  return epochs[Math.min(epoch, epochs.length - 1)];
}

if (typeof module !== "undefined") module.exports = { leafOf, rate, guard };
