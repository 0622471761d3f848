//! Best fit: a pod goes to the claim whose slack it fills best without raising the claim's price. Otherwise a claim grows or a new one is
//! opened, whichever buys capacity at the lower price. It handles all constraints; a pod costs a bounded number of attempts.

use crate::compile::catalogue::TypeRow;
use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, GroupKind, NewNode, TopologyKey};
use crate::dense::amounts::{Amounts, add};
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::search::assignment::Assignment;
use crate::search::query::{Narrowed, Query, Rejection};
use crate::search::specs::SpecId;
use crate::strategy::greedy::{Attempt, ClaimChooser, FewestPods, solve};
use crate::strategy::lp_duals::value_of;
use crate::strategy::objective::NodeCosts;
use crate::strategy::outcome::{Outcome, Stop};
use crate::strategy::pod_values::PodValues;
use crate::strategy::priced_start::PricedStart;
use crate::strategy::slack_index::SlackIndex;
use smallvec::SmallVec;

/// The largest number of claims examined for a pod. README.md: 256 costs 0.03 % more, 4,096 costs the same.
const LOOKED_MAX: usize = 1024;
/// With more claims than this, only a sample of those with about equal slack is examined. README.md: the sample of 16 gives the cheapest
/// plans of 4, 16 and 64.
const SAMPLE_ABOVE: usize = 2048;
const SAMPLE_MAX: usize = 16;
/// The number of candidates that are tried. Once as many have enough slack, no more claims are examined.
const TRIED_MAX: usize = 4;
/// The value of capacity that no pod uses yet, as a fraction of the value of used capacity. README.md: 1.0 costs 0.09 % more, lower values
/// cost the same.
const UNUSED_VALUE_FACTOR: f64 = 0.9;

/// The price of a claim plus its node cost, in 10⁻¹² dollars per hour, as the cheapest type it can be, and its slack: the resources its pods leave of that type.
#[derive(Clone, Debug)]
struct Slack {
    price: f64,
    amounts: Amounts,
}

impl Slack {
    /// The slack of a claim with a spec, rows and usage. Returns `None` where it has no price.
    fn new(
        assignment: &mut Assignment<'_, '_>,
        template: TemplateId,
        (spec, rows): (SpecId, &IdSet<TypeRow>),
        used: &[i64],
        node_costs: &NodeCosts,
    ) -> Option<Self> {
        let problem = assignment.problem;
        let (price, row, _) = assignment.specs.cheapest(problem, spec, rows)?;
        let usable = problem.usable(template, row).zip(used);
        let amounts = usable.map(|(usable, used)| usable.saturating_sub(*used));
        Some(Self {
            price: price.pico() as f64 + node_costs[template] as f64,
            amounts: amounts.collect(),
        })
    }
}

/// A claim that accepts the pod, and what it would become.
struct Growth {
    claim: ClaimId,
    narrowed: Narrowed,
    slack: Slack,
    /// The rise in price minus the value of the capacity bought.
    net: f64,
}

/// Chooses claims by best fit.
pub(crate) struct BestFit<'x> {
    values: &'x PodValues,
    slack: IdVec<NewNode, Slack>,
    slack_index: SlackIndex,
    claim_mask: ClaimMask,
}

/// The candidate claims of one query, 64 at a time, computed on first use.
#[derive(Debug, Default)]
struct ClaimMask {
    /// Per word: the query it was computed for, and the claims.
    words: Vec<(u32, u64)>,
    query: u32,
}

impl ClaimMask {
    /// Starts a new query.
    fn reset(&mut self, claims: usize) {
        self.words.resize(claims.div_ceil(64), (0, 0));
        self.query = self.query.wrapping_add(1);
        if self.query == 0 {
            self.words.fill((0, 0));
            self.query = 1;
        }
    }

    fn word(&mut self, at: usize, mask: impl FnOnce() -> u64) -> u64 {
        let (query, word) = &mut self.words[at];
        if *query != self.query {
            (*query, *word) = (self.query, mask());
        }
        *word
    }
}

impl<'x> BestFit<'x> {
    /// For an assignment without claims, and the pods of a queue.
    pub(crate) fn new(values: &'x PodValues, assignment: &Assignment<'_, '_>, queue: &[PodId]) -> Self {
        Self {
            values,
            slack: IdVec::new(),
            slack_index: SlackIndex::new(assignment, queue),
            claim_mask: ClaimMask::default(),
        }
    }

    /// Places the pod on a claim whose price does not rise, if there is one.
    pub(crate) fn place_free(
        &mut self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        class: ClassId,
        pod: PodId,
    ) -> bool {
        let Some(unit_prices) = self.values.unit_prices_for(class) else {
            return false;
        };
        match self.best(assignment, query, unit_prices) {
            Some(growth) if self.is_free(&growth) => {
                self.grow(assignment, growth, class, pod);
                true
            }
            _ => false,
        }
    }

    /// Returns whether the claim's price does not rise.
    fn is_free(&self, growth: &Growth) -> bool {
        growth.slack.price <= self.slack[growth.claim].price
    }

    /// Records the slack of a claim.
    fn record_slack(&mut self, claim: ClaimId, slack: Slack) {
        let cell = self.slack_index.cell(&slack.amounts);
        match self.slack.get_mut(claim) {
            Some(previous) => {
                let before = self.slack_index.cell(&previous.amounts);
                *previous = slack;
                if before == cell {
                    return;
                }
                self.slack_index.take(claim, before);
            }
            None => {
                self.slack.push(slack);
            }
        }
        self.slack_index.put(claim, cell);
    }

    /// What a claim would become with the pod.
    fn growth_of(
        &self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        claim: ClaimId,
        unit_prices: &[f64],
    ) -> Option<Growth> {
        let narrowed = assignment.try_claim(query, claim).ok()?;
        let mut used = assignment.claims[claim].used.clone();
        add(&mut used, &query.class.requests);
        let slack = Slack::new(
            assignment,
            assignment.claims[claim].template,
            (narrowed.spec, &narrowed.rows),
            &used,
            &self.values.node_costs,
        )?;
        let before = &self.slack[claim];
        let bought = value_of(unit_prices, &slack.amounts) + value_of(unit_prices, &query.class.requests)
            - value_of(unit_prices, &before.amounts);
        let net = slack.price - before.price - UNUSED_VALUE_FACTOR * bought.max(0.0);
        Some(Growth {
            claim,
            narrowed,
            slack,
            net,
        })
    }

    /// The best candidates for a pod: first by the price of what they lack, then by the value of the slack that would remain.
    fn candidates(
        &mut self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        unit_prices: &[f64],
    ) -> SmallVec<[Candidate; TRIED_MAX + 1]> {
        let requests = &query.class.requests;
        let mut best: SmallVec<[Candidate; TRIED_MAX + 1]> = SmallVec::new();
        let (mut looked, mut roomy) = (0, 0);
        self.claim_mask.reset(assignment.claims.len());
        let alike_max = if assignment.claims.len() > SAMPLE_ABOVE {
            SAMPLE_MAX
        } else {
            LOOKED_MAX
        };
        let exhausted = assignment.exhausted(query).clone();
        for (lacking, claim_set) in self.slack_index.ranked(requests, unit_prices) {
            if best.get(TRIED_MAX - 1).is_some_and(|last| lacking > last.lacking) {
                continue;
            }
            let enough = looked + alike_max;
            'claim_set: for (word, claims) in claim_set.words_besides(&exhausted) {
                let claims = claims & self.claim_mask.word(word, || assignment.candidate_claims(query, word));
                for claim in IdSet::ids_of_word(word, claims) {
                    looked += 1;
                    let candidate = Candidate::of(claim, &self.slack[claim].amounts, requests, unit_prices);
                    let beaten = best.get(TRIED_MAX - 1).is_some_and(|last| !candidate.better(last));
                    if !beaten && assignment.may_have_room(query, claim) {
                        let at = best.partition_point(|previous| !candidate.better(previous));
                        best.insert(at, candidate);
                        best.truncate(TRIED_MAX);
                        roomy += usize::from(candidate.lacking <= 0.0);
                    }
                    if looked == LOOKED_MAX || roomy == TRIED_MAX {
                        return best;
                    }
                    if looked == enough {
                        break 'claim_set;
                    }
                }
            }
        }
        best
    }

    /// The claim that accepts the pod at the lowest net price. The first one whose price does not rise is taken at once.
    fn best(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, unit_prices: &[f64]) -> Option<Growth> {
        let mut best: Option<Growth> = None;
        for candidate in self.candidates(assignment, query, unit_prices) {
            let Some(growth) = self.growth_of(assignment, query, candidate.claim, unit_prices) else {
                continue;
            };
            if self.is_free(&growth) {
                return Some(growth);
            }
            if best.as_ref().is_none_or(|best| growth.net < best.net) {
                best = Some(growth);
            }
        }
        best
    }

    /// A new claim of the first pool that accepts the pod (SCH-141).
    fn open(
        &self,
        assignment: &mut Assignment<'_, '_>,
        query: &Query<'_>,
        unit_prices: &[f64],
    ) -> Result<NewClaim, Rejection> {
        let (template, narrowed) = assignment.first_template(query)?;
        let requests = &query.class.requests;
        let launched = (narrowed.spec, &narrowed.rows);
        let slack = Slack::new(assignment, template, launched, requests, &self.values.node_costs)
            .ok_or(Rejection::Temporary)?;
        let bought = value_of(unit_prices, &slack.amounts) + value_of(unit_prices, requests);
        let net = slack.price - UNUSED_VALUE_FACTOR * bought;
        Ok(NewClaim {
            template,
            narrowed,
            slack,
            net,
        })
    }
}

/// A claim as a candidate for a pod, before it is tried.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    claim: ClaimId,
    /// The value of the resources it lacks.
    lacking: f64,
    /// The value of the slack that would remain.
    left: f64,
}

impl Candidate {
    /// The candidate for a claim with this slack and a pod with these requests.
    fn of(claim: ClaimId, slack: &[i64], requests: &[i64], unit_prices: &[f64]) -> Self {
        let (mut lacking, mut left) = (0.0, 0.0);
        for ((unit_prices, want), have) in unit_prices.iter().zip(requests).zip(slack) {
            let over = unit_prices * (have - want) as f64;
            if over < 0.0 && *want > 0 {
                lacking -= over;
            } else {
                left += over;
            }
        }
        Self { claim, lacking, left }
    }

    /// Returns whether this candidate is better than another one.
    fn better(&self, other: &Self) -> bool {
        let order = self.lacking.total_cmp(&other.lacking);
        order.then(self.left.total_cmp(&other.left)).is_lt()
    }
}

/// A claim that could be opened.
struct NewClaim {
    template: TemplateId,
    narrowed: Narrowed,
    slack: Slack,
    net: f64,
}

impl ClaimChooser for BestFit<'_> {
    fn place(&mut self, assignment: &mut Assignment<'_, '_>, query: &Query<'_>, class: ClassId, pod: PodId) -> Attempt {
        let zero = Vec::new();
        let unit_prices = self.values.unit_prices_for(class).unwrap_or(&zero);
        let mut growth = self.best(assignment, query, unit_prices);
        if let Some(growth) = growth.take_if(|growth| self.is_free(growth)) {
            self.grow(assignment, growth, class, pod);
            return Attempt::Placed;
        }
        match (self.open(assignment, query, unit_prices), growth) {
            (Ok(new_claim), growth) if growth.as_ref().is_none_or(|growth| new_claim.net < growth.net) => {
                let claim = assignment.open(new_claim.template, &new_claim.narrowed, class, pod);
                self.record_slack(claim, new_claim.slack);
                Attempt::Placed
            }
            (_, Some(growth)) => {
                self.grow(assignment, growth, class, pod);
                Attempt::Placed
            }
            // None of the examined claims accepts the pod: take any other claim.
            (new_claim, None) => match FewestPods.place(assignment, query, class, pod) {
                Attempt::Placed => {
                    self.record_fallback(assignment, pod);
                    Attempt::Placed
                }
                Attempt::Failed | Attempt::Deferred if matches!(new_claim, Err(Rejection::Reserved(_))) => {
                    Attempt::Deferred
                }
                refused @ (Attempt::Failed | Attempt::Deferred) => refused,
            },
        }
    }
}

impl BestFit<'_> {
    /// Places the pod and records the new slack.
    fn grow(&mut self, assignment: &mut Assignment<'_, '_>, growth: Growth, class: ClassId, pod: PodId) {
        assignment.place_on_claim(growth.claim, &growth.narrowed, class, pod);
        self.record_slack(growth.claim, growth.slack);
    }

    /// Records the slack of the claim on which another chooser placed a pod.
    fn record_fallback(&mut self, assignment: &mut Assignment<'_, '_>, pod: PodId) {
        let mut claims = assignment.claims.ids().rev();
        let Some(claim) = claims.find(|claim| assignment.claims[*claim].pods.last() == Some(&pod)) else {
            return;
        };
        let claim_now = assignment.claims[claim].clone();
        let launched = (claim_now.spec, &claim_now.rows);
        let slack = Slack::new(
            assignment,
            claim_now.template,
            launched,
            &claim_now.used,
            &self.values.node_costs,
        );
        let nothing = || Slack {
            price: f64::MAX,
            amounts: assignment.problem.resources.zero(),
        };
        self.record_slack(claim, slack.unwrap_or_else(nothing));
    }
}

/// Returns whether no two pods of a class may share a node. Each needs its own node anyway, and other pods fill these up.
fn needs_own_node(problem: &Problem<'_>, class: &PodClass) -> bool {
    let own_group = class.levels.first().map_or(&[][..], |level| &level.own_groups);
    own_group.iter().any(|own_group| {
        let group = &problem.groups.list[own_group.group];
        let inverse_groups = group.kind() == GroupKind::AntiAffinity && group.identity.key == TopologyKey::Host;
        inverse_groups && own_group.selects_self
    })
}

/// Pods that need their own node first, then the others by value, highest first.
pub(crate) fn best_fit_order(problem: &Problem<'_>, values: &PodValues, queue: &[PodId]) -> Vec<PodId> {
    let needs_own_node =
        |pod: &PodId| problem.of_pod[*pod].is_some_and(|class| needs_own_node(problem, problem.class(class)));
    let (mut order, mut rest): (Vec<PodId>, Vec<PodId>) = queue.iter().copied().partition(needs_own_node);
    let value = |pod: &PodId| {
        let class = problem.of_pod[*pod];
        class
            .and_then(|class| Some(value_of(values.unit_prices_for(class)?, problem.requests(class))))
            .unwrap_or_default()
    };
    rest.sort_by(|a, b| value(b).total_cmp(&value(a)));
    order.extend(rest);
    order
}

/// Places all pods by best fit.
pub(super) fn best_fit<'w, 'a>(
    start: &PricedStart<'w, 'a>,
    queue: &[PodId],
    _: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let (assignment, values) = (start.assignment.clone(), &start.values);
    let order = best_fit_order(assignment.problem, values, queue);
    let mut best_fit = BestFit::new(values, &assignment, queue);
    Some(solve(assignment, &order, &mut best_fit, stop))
}
