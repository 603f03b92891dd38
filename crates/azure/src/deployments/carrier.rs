//! Carries a deployment out: whatever can be made is made, one resource after another; what waits for an answer is
//! evaluated again once that is known. A resource that is refused leaves out what depends on it, and the rest is made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arm_template::{Evaluation, Node, NodeKind, placeholder};
use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use service::Broker;
use tokio::time::Instant;

use super::inner_ask::{self, Reply};
use super::plan::{Answers, DEPLOYMENTS, Plan, are_known, body_of, is_about, is_known};
use super::unit::Unit;
use crate::failure::Failure;
use crate::records::{self, Record, State};
use crate::runs::Permit;

/// At least so often the record says that somebody is at it.
const BEAT: Duration = Duration::from_secs(2);
/// At most so often it says how far that is.
const WRITE: Duration = Duration::from_millis(500);
/// What a group that has no leader for a while refuses is asked for again within.
const RETRY_WITHIN: Duration = Duration::from_secs(90);
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Why a deployment ended before all was made.
enum End {
    Failed(Value),
    Canceled,
    /// Another node, or another deployment of that name, has taken its place.
    Superseded,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        End::Failed(failure.error())
    }
}

pub(super) struct Carrier {
    plan: Plan,
    root: Unit,
    /// By where they stand.
    modules: BTreeMap<String, Unit>,
    /// Places of what is made, or needs no making.
    done: BTreeSet<String>,
    failed: BTreeSet<String>,
    answers: Answers,
    /// What was asked last and not answered.
    unanswered: Option<Value>,
    written_at: Instant,
    _permit: Permit,
}

impl Carrier {
    pub fn new(plan: Plan, record: Record, permit: Permit) -> Carrier {
        let operations = records::operations(&plan.requester.broker, &record.run);
        let done = operations.iter().filter(|one| one.state == State::Succeeded);
        Carrier {
            done: done.map(|one| one.at.clone()).collect(),
            root: Unit::new(Record { state: State::Running, ..record }, operations),
            modules: BTreeMap::new(),
            failed: BTreeSet::new(),
            answers: Answers::new(),
            unanswered: None,
            written_at: Instant::now(),
            plan,
            _permit: permit,
        }
    }

    pub async fn run(mut self) {
        let broker = self.broker();
        let _ = self.root.write(&broker).await;
        let carried_out = self.carry_out().await;
        if broker.has_ended() {
            return; // Another node goes on with it.
        }
        let (state, outputs, error) = match carried_out {
            Ok(outputs) => (State::Succeeded, outputs, None),
            Err(End::Failed(error)) => (State::Failed, Map::new(), Some(error)),
            Err(End::Canceled) => {
                let error = json!({
                    "code": "DeploymentCanceled",
                    "message": "The deployment was cancelled; what it had made stays.",
                });
                (State::Canceled, Map::new(), Some(error))
            }
            Err(End::Superseded) => return,
        };
        let now_ms = self.now_ms();
        for module in self.modules.values_mut().filter(|module| !module.record.state.is_over()) {
            module.finish(state, Map::new(), None, now_ms);
        }
        self.root.finish(state, outputs, error, now_ms);
        self.write_to_the_end().await;
    }

    fn broker(&self) -> Broker {
        self.plan.requester.broker.clone()
    }

    fn now_ms(&self) -> u64 {
        self.plan.requester.broker.cluster().now_here().0.0
    }

    /// Makes everything. The outputs.
    async fn carry_out(&mut self) -> Result<Map<String, Value>, End> {
        let mut evaluation = self.plan.evaluate(&self.answers).await?;
        loop {
            let mut is_further = false;
            for node in 0..evaluation.nodes.len() {
                is_further |= self.step(&evaluation, node).await?;
            }
            is_further |= self.end_modules(&evaluation);
            let is_all_done = evaluation.nodes.iter().all(|node| self.done.contains(&node.at));
            if is_all_done && are_known(&evaluation.outputs) {
                return Ok(evaluation.outputs);
            }
            if is_further {
                continue;
            }
            if !self.ask(&evaluation).await {
                return Err(End::Failed(self.why(&evaluation)));
            }
            evaluation = self.plan.evaluate(&self.answers).await?;
        }
    }

    /// Does what can be done about a node now. Whether that was something.
    async fn step(&mut self, evaluation: &Evaluation, index: usize) -> Result<bool, End> {
        let node = &evaluation.nodes[index];
        if self.done.contains(&node.at) && !matches!(node.is, NodeKind::Module(_))
            || self.failed.contains(&node.at)
        {
            return Ok(false);
        }
        match &node.is {
            NodeKind::Absent => Ok(self.done.insert(node.at.clone())),
            _ if !self.may_start(evaluation, node) => Ok(false),
            NodeKind::Waits(_) => Ok(false),
            NodeKind::Module(module) => self.begin_module(evaluation, node, *module).await,
            NodeKind::Resource(resource) => {
                let of = &evaluation.resources[*resource];
                if of.is_existing {
                    return Ok(self.done.insert(node.at.clone()));
                }
                if !is_known(of) {
                    return Ok(false);
                }
                self.check_on().await?;
                let now_ms = self.now_ms();
                self.unit(evaluation, node).begin(&node.at, &of.kind, &of.name, now_ms);
                let (id, body) = (self.plan.id(of), body_of(of));
                let told = self.put(&id, body).await;
                if let Some(error) = told.error() {
                    tracing::debug!(resource = id, %error, "a resource of a deployment is refused");
                }
                let is_made = told.error().is_none();
                let now_ms = self.now_ms();
                self.unit(evaluation, node).end(&node.at, &told, now_ms);
                match is_made {
                    true => self.done.insert(node.at.clone()),
                    false => self.failed.insert(node.at.clone()),
                };
                self.write_now_and_then().await;
                Ok(true)
            }
        }
    }

    /// What it comes after is made, and so is what the module around it comes after.
    fn may_start(&self, evaluation: &Evaluation, node: &Node) -> bool {
        let before = node.after.iter().all(|on| self.done.contains(&evaluation.nodes[*on].at));
        let around = node.within.map(|around| &evaluation.nodes[around]);
        before && around.is_none_or(|around| self.may_start(evaluation, around))
    }

    /// The record that a node's operation belongs to.
    fn unit(&mut self, evaluation: &Evaluation, node: &Node) -> &mut Unit {
        let around = node.within.map(|around| evaluation.nodes[around].at.as_str());
        match around.and_then(|at| self.modules.get_mut(at)) {
            Some(module) => module,
            None => &mut self.root,
        }
    }

    async fn begin_module(
        &mut self,
        evaluation: &Evaluation,
        node: &Node,
        module: usize,
    ) -> Result<bool, End> {
        if self.modules.contains_key(&node.at) {
            return Ok(false);
        }
        self.check_on().await?;
        let of = &evaluation.modules[module];
        let now_ms = self.now_ms();
        let mut unit = Unit::of_module(&self.root.record, &of.name, &self.broker(), now_ms).await?;
        unit.record.parameters.clone_from(&of.parameters);
        let made = unit.operations.iter().filter(|one| one.state == State::Succeeded);
        self.done.extend(made.map(|one| one.at.clone()));
        if self.unit(evaluation, node).state_of(&node.at) != Some(State::Succeeded) {
            self.unit(evaluation, node).begin(&node.at, DEPLOYMENTS, &of.name, now_ms);
        }
        self.modules.insert(node.at.clone(), unit);
        self.write_now_and_then().await;
        Ok(true)
    }

    /// Modules all of whose resources are made are done.
    fn end_modules(&mut self, evaluation: &Evaluation) -> bool {
        let mut is_further = false;
        // Those in others come later.
        for index in (0..evaluation.nodes.len()).rev() {
            let node = &evaluation.nodes[index];
            let NodeKind::Module(module) = node.is else { continue };
            let is_begun = self.modules.contains_key(&node.at);
            if !is_begun || self.modules[&node.at].record.state.is_over() {
                continue;
            }
            let mut inside = evaluation.nodes.iter().filter(|one| one.within == Some(index));
            let outputs = &evaluation.modules[module].outputs;
            if !inside.all(|one| self.done.contains(&one.at)) || !are_known(outputs) {
                continue;
            }
            let now_ms = self.now_ms();
            if let Some(unit) = self.modules.get_mut(&node.at) {
                unit.finish(State::Succeeded, outputs.clone(), None, now_ms);
            }
            let told = Reply { status: StatusCode::OK, body: Value::Null };
            self.unit(evaluation, node).end(&node.at, &told, now_ms);
            self.done.insert(node.at.clone());
            is_further = true;
        }
        is_further
    }

    /// Asks what the template waits for, of what is there by now. Whether something was answered.
    async fn ask(&mut self, evaluation: &Evaluation) -> bool {
        let nodes = (0..evaluation.nodes.len())
            .filter(|node| !self.done.contains(&evaluation.nodes[*node].at));
        let not_there: Vec<String> =
            nodes.filter_map(|node| self.plan.node_id(evaluation, node)).collect();
        let mut is_answered = false;
        for question in &evaluation.questions {
            let is_to_come = is_about(question.id(), not_there.iter().map(String::as_str));
            if is_to_come || self.answers.contains_key(question) {
                continue;
            }
            let requester = self.plan.requester.clone();
            let told = self.beating(inner_ask::question(&requester, question)).await;
            match told.error() {
                None => {
                    self.answers.insert(question.clone(), told.body);
                    is_answered = true;
                }
                Some(error) => self.unanswered = Some(error),
            }
        }
        is_answered
    }

    /// Why it goes no further.
    fn why(&mut self, evaluation: &Evaluation) -> Value {
        self.fail_modules(evaluation);
        let units = [&self.root].into_iter().chain(self.modules.values());
        let mut details: Vec<Value> = units.flat_map(Unit::failures).collect();
        if details.is_empty() {
            details.extend(self.unanswered.take());
        }
        if details.is_empty() {
            details.push(json!({"code": "InvalidTemplate", "message": self.wait(evaluation)}));
        }
        json!({
            "code": "DeploymentFailed",
            "message": "At least one resource deployment operation failed. Please list deployment operations for \
                        details. What was made stays; deploy again to make the rest.",
            "details": details,
        })
    }

    /// What it waits for.
    fn wait(&self, evaluation: &Evaluation) -> String {
        let waits = evaluation.nodes.iter().find_map(|node| match &node.is {
            NodeKind::Waits(error) => Some(error.clone()),
            NodeKind::Resource(index) if !self.done.contains(&node.at) => {
                let values = evaluation.resources[*index].body.values();
                let what = values.into_iter().find_map(placeholder::unknown)?;
                let why = format!("it depends on {what}, which nothing here can answer");
                Some(arm_template::Error::new(&node.at, why))
            }
            _ => None,
        });
        match waits {
            Some(error) => self.plan.request.told(&error),
            None => "An output depends on what nothing here can answer.".to_owned(),
        }
    }

    /// A module in which something failed has.
    fn fail_modules(&mut self, evaluation: &Evaluation) {
        let now_ms = self.now_ms();
        for node in evaluation.nodes.iter().rev() {
            let Some(unit) = self.modules.get_mut(&node.at) else { continue };
            if unit.record.state.is_over() {
                continue;
            }
            let details = unit.failures();
            if details.is_empty() {
                continue;
            }
            let error = json!({
                "code": "DeploymentFailed",
                "message": "At least one resource deployment operation failed.",
                "details": details,
            });
            unit.finish(State::Failed, Map::new(), Some(error.clone()), now_ms);
            let told = Reply { status: StatusCode::CONFLICT, body: json!({"error": error}) };
            self.unit(evaluation, node).end(&node.at, &told, now_ms);
        }
    }

    /// Puts a resource, again where its group has no leader for a while.
    async fn put(&mut self, id: &str, body: bytes::Bytes) -> Reply {
        let until = Instant::now() + RETRY_WITHIN;
        let requester = self.plan.requester.clone();
        loop {
            let ask = inner_ask::ask(&requester, &Method::PUT, id, body.clone(), None);
            let told = self.beating(ask).await;
            let is_over = requester.broker.has_ended() || Instant::now() > until;
            if is_over || !told.is_passing() {
                return told;
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Runs something, and says meanwhile that somebody is at it.
    async fn beating<T>(&mut self, run: impl Future<Output = T>) -> T {
        tokio::pin!(run);
        loop {
            let beat = tokio::time::sleep_until(self.written_at + BEAT);
            tokio::select! {
                done = &mut run => return done,
                () = beat => self.write().await,
            }
        }
    }

    /// # Errors
    /// It is cancelled, or somebody else's by now.
    async fn check_on(&mut self) -> Result<(), End> {
        let (broker, record) = (self.broker(), &self.root.record);
        let now = records::find(&broker, &record.group, &record.name);
        let is_own = |now: &Record| now.run == record.run && now.owner == record.owner;
        if !now.is_some_and(|now| is_own(&now.record)) {
            return Err(End::Superseded);
        }
        match records::is_cancelled(&broker, &record.run) {
            true => Err(End::Canceled),
            false => Ok(()),
        }
    }

    async fn write_now_and_then(&mut self) {
        if self.written_at.elapsed() > WRITE {
            self.write().await;
        }
    }

    /// What cannot be written now is the next time.
    async fn write(&mut self) {
        if let Err(failure) = self.write_all().await {
            tracing::debug!(error = %failure.error(), "how far a deployment is cannot be written now");
        }
        self.written_at = Instant::now();
    }

    async fn write_all(&mut self) -> Result<(), Failure> {
        let broker = self.broker();
        for module in self.modules.values_mut() {
            module.write(&broker).await?;
        }
        self.root.write(&broker).await
    }

    /// How it ended is written, however long that takes within reason; then what was asked for is forgotten.
    async fn write_to_the_end(&mut self) {
        let until = Instant::now() + RETRY_WITHIN;
        while let Err(failure) = self.write_all().await {
            if failure.is_the_clients() {
                // What it tells is too large.
                let error = failure.error();
                let now_ms = self.now_ms();
                for unit in [&mut self.root].into_iter().chain(self.modules.values_mut()) {
                    unit.finish(State::Failed, Map::new(), Some(error.clone()), now_ms);
                }
                continue;
            }
            if self.plan.requester.broker.has_ended() {
                return; // Another node finds what is left to write.
            }
            if Instant::now() > until {
                tracing::warn!(
                    deployment = self.plan.name, error = %failure.error(),
                    "how a deployment ended cannot be written"
                );
                return;
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        let record = &self.root.record;
        let _ = records::forget_request(&self.broker(), record).await;
    }
}
