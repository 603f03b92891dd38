//! The entities of a file that is run: created before it, and removed after it.

use client::Client;
use definitions::{Change, Definitions, EntityPath, Found, Options, Properties, Step};

use crate::{terminal, topology};

/// What a run has created.
pub struct RunEntities {
    client: Client,
    /// Queues and topics; subscriptions go with their topics.
    created: Vec<EntityPath>,
}

impl RunEntities {
    /// Creates what a file describes. What of it cannot be created is told, and what was is removed again.
    pub async fn create(client: &Client, wanted: &Definitions) -> anyhow::Result<RunEntities> {
        let plan = definitions::plan(wanted, &Found::default(), Options::default());
        let plan = plan.map_err(|problems| {
            let first = problems.first().map(ToString::to_string);
            terminal::usage(first.unwrap_or_default())
        })?;
        let mut entities = RunEntities { client: client.clone(), created: Vec::new() };
        for step in plan.steps {
            if let Err(error) = topology::apply(client, &step).await {
                entities.remove().await;
                return Err(terminal::usage(told(&step, &error)));
            }
            let is_created = matches!(
                step.change,
                Change::Create { properties: Properties::Queue(_) | Properties::Topic(_), .. }
            );
            if is_created {
                entities.created.push(step.entity);
            }
        }
        Ok(entities)
    }

    /// Removes them; what cannot be removed is told, as it is left behind.
    pub async fn remove(&mut self) {
        for entity in std::mem::take(&mut self.created).into_iter().rev() {
            let step = Step { entity, was_there: true, change: Change::Delete { messages: 0 } };
            if let Err(error) = topology::apply(&self.client, &step).await {
                terminal::complain(&format!("{} is left behind: {error:#}", step.entity));
            }
        }
    }
}

fn told(step: &Step, error: &anyhow::Error) -> String {
    let name = error.downcast_ref::<client::Error>().map(client::Error::name);
    match name {
        Some("MessagingEntityAlreadyExists") => format!(
            "{} is there already; write {{run}} into its name, or leave it out of the file and it is used as it is",
            step.entity
        ),
        _ => format!("{error:#}").replace('\n', " "),
    }
}
