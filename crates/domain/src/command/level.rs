//! From which feature level on a log may hold a command: a node below it could not read it.

use crate::catalog::{
    FEATURE_LEVEL_BACKUP, FEATURE_LEVEL_DOCUMENTS, FEATURE_LEVEL_FAULT_RULES,
    FEATURE_LEVEL_FOUNDED, FEATURE_LEVEL_JOIN_TOKENS, FEATURE_LEVEL_MAINTENANCE,
    FEATURE_LEVEL_MATCH_BUDGET, FEATURE_LEVEL_MORE_GROUPS, FEATURE_LEVEL_NAMESPACES,
    FEATURE_LEVEL_PROFILES, FEATURE_LEVEL_RELOCATION, FEATURE_LEVEL_RULES_OF_0_2,
};
use crate::{
    CatalogCommand, Command, Conditions, DeadlineKind, Fire, ForwardCommand, NewRule, Profile,
    QueueProperties, RuleFilter, SqlText, TopicCommand, TopicProperties, namespace_of,
};

impl Command {
    pub fn level(&self) -> u32 {
        match self {
            Command::CreateQueue(create) => create.properties.level().max(of_name(&create.name)),
            Command::UpdateQueue(update) => update.properties.level(),
            Command::Fire(Fire { kind: DeadlineKind::Matching, .. })
            | Command::LimitMatching { .. } => FEATURE_LEVEL_MATCH_BUDGET,
            Command::Catalog(command) => command.level(),
            Command::Topic(command) => command.level(),
            Command::Forward(ForwardCommand::ArriveBehind { .. })
            | Command::Cut { .. }
            | Command::Restore(_) => FEATURE_LEVEL_BACKUP,
            Command::Relocate(_) => FEATURE_LEVEL_RELOCATION,
            Command::Select(_) | Command::ReachLevel { .. } => FEATURE_LEVEL_RULES_OF_0_2,
            Command::DeleteEntity { .. }
            | Command::Send(_)
            | Command::Acquire(_)
            | Command::Settle(_)
            | Command::Renew(_)
            | Command::CancelScheduled(_)
            | Command::ReceiveDeferred(_)
            | Command::DeleteBatch(_)
            | Command::Fire(_)
            | Command::FireLocks(_)
            | Command::Touch { .. }
            | Command::Seal(_)
            | Command::Beat
            | Command::Sweep
            | Command::AdvanceClock { .. }
            | Command::RaiseClock { .. }
            | Command::Session(_)
            | Command::Refuse(_)
            | Command::Forward(_)
            | Command::Commit(_) => FEATURE_LEVEL_FOUNDED,
        }
    }
}

impl CatalogCommand {
    fn level(&self) -> u32 {
        match self {
            CatalogCommand::Create { name, properties, .. } => {
                properties.level().max(of_name(name))
            }
            CatalogCommand::CreateTopic { name, properties, .. } => {
                properties.level().max(of_name(name))
            }
            CatalogCommand::CreateSubscription { topic, rule, .. } => {
                rule.level().max(of_name(topic))
            }
            CatalogCommand::CreateNamespace { .. }
            | CatalogCommand::UpdateNamespace { .. }
            | CatalogCommand::DeleteNamespace { .. }
            | CatalogCommand::NamespaceDeleted { .. } => FEATURE_LEVEL_NAMESPACES,
            CatalogCommand::RestoreNamespaces { rows, .. } => {
                match rows.iter().all(|row| row.profiles().eq([Profile::SelfHosted])) {
                    true => FEATURE_LEVEL_NAMESPACES,
                    false => FEATURE_LEVEL_PROFILES,
                }
            }
            CatalogCommand::CreateNamespaceOf { .. }
            | CatalogCommand::ChangeProfile { .. }
            | CatalogCommand::SettleProfile { .. }
            | CatalogCommand::SetNamespaceIdle { .. }
            | CatalogCommand::UseNamespace { .. }
            | CatalogCommand::SealNamespace { .. }
            | CatalogCommand::DeleteIdleNamespace { .. } => FEATURE_LEVEL_PROFILES,
            CatalogCommand::PutDocument { .. } | CatalogCommand::RemoveDocument { .. } => {
                FEATURE_LEVEL_DOCUMENTS
            }
            CatalogCommand::Found { .. }
            | CatalogCommand::Created { .. }
            | CatalogCommand::Withdraw { .. }
            | CatalogCommand::Delete { .. }
            | CatalogCommand::Deleted { .. }
            | CatalogCommand::Seal { .. }
            | CatalogCommand::Spare { .. }
            | CatalogCommand::SetNode { .. }
            | CatalogCommand::AddNode { .. }
            | CatalogCommand::Drain { .. }
            | CatalogCommand::Remove { .. }
            | CatalogCommand::MoveReplica { .. } => FEATURE_LEVEL_FOUNDED,
            // The first one raises it.
            CatalogCommand::CreateJoinToken { .. } => FEATURE_LEVEL_FOUNDED,
            CatalogCommand::RevokeJoinToken { .. } | CatalogCommand::Join { .. } => {
                FEATURE_LEVEL_JOIN_TOKENS
            }
            // All nodes were asked whether they know it.
            CatalogCommand::RaiseFeatureLevel { .. } => FEATURE_LEVEL_FOUNDED,
            CatalogCommand::SetMaintenance { .. } => FEATURE_LEVEL_MAINTENANCE,
            CatalogCommand::AddGroups { .. } | CatalogCommand::OpenGroups { .. } => {
                FEATURE_LEVEL_MORE_GROUPS
            }
            CatalogCommand::RestoreNames { rows, .. } => {
                let of_names = rows.iter().map(|row| of_name(&row.name)).max();
                of_names.unwrap_or_default().max(FEATURE_LEVEL_BACKUP)
            }
            CatalogCommand::BeginRestore { .. } | CatalogCommand::EndRestore { .. } => {
                FEATURE_LEVEL_BACKUP
            }
            CatalogCommand::SetGroup { .. } => FEATURE_LEVEL_RELOCATION,
            CatalogCommand::PutFaultRule { .. } | CatalogCommand::RemoveFaultRules { .. } => {
                FEATURE_LEVEL_FAULT_RULES
            }
        }
    }
}

impl TopicCommand {
    fn level(&self) -> u32 {
        match self {
            TopicCommand::Create(create) => create.properties.level().max(of_name(&create.name)),
            TopicCommand::Update(update) => update.properties.level(),
            TopicCommand::CreateSubscription(create) => {
                create.rule.level().max(of_name(&create.name))
            }
            TopicCommand::PutRule(put) => put.rule.level(),
            TopicCommand::UpdateSubscription(_) | TopicCommand::RemoveRule(_) => {
                FEATURE_LEVEL_FOUNDED
            }
        }
    }
}

/// A name in a namespace would be refused by versions that know none.
fn of_name(name: &str) -> u32 {
    if namespace_of(name).is_default() { FEATURE_LEVEL_FOUNDED } else { FEATURE_LEVEL_NAMESPACES }
}

fn of(is_of_0_1: bool) -> u32 {
    if is_of_0_1 { FEATURE_LEVEL_FOUNDED } else { FEATURE_LEVEL_RULES_OF_0_2 }
}

impl QueueProperties {
    fn level(&self) -> u32 {
        of(self.support_ordering && !self.enable_partitioning && !self.enable_express)
    }
}

impl TopicProperties {
    fn level(&self) -> u32 {
        let unusual =
            [self.enable_partitioning, self.enable_express, self.enable_subscription_partitioning];
        of(!unusual.contains(&true))
    }
}

impl NewRule {
    /// 0.1 does not know how clients wrote values (RULE-39).
    fn level(&self) -> u32 {
        let says_nothing = |sql: &SqlText| sql.written.is_empty();
        let filter = match &self.filter {
            RuleFilter::True | RuleFilter::False => true,
            RuleFilter::Sql(sql) => says_nothing(sql),
            RuleFilter::Correlation(Conditions { written, .. }) => written.is_empty(),
        };
        of(filter && self.action.as_ref().is_none_or(says_nothing))
    }
}
