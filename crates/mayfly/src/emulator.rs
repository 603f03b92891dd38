//! `--emulator-config`: entities as the configuration file of Microsoft's Service Bus emulator lists
//! them. The file is read and checked whole before a node starts; an error names the place in it.

use std::path::Path;

use client::Client;
use definitions::{Change, Definitions, Options, Plan};

use crate::{terminal, topology};

/// What a file lists.
#[derive(Debug, Default)]
pub struct Entities(Definitions);

/// What came of a file.
#[derive(Debug, Default)]
pub struct Outcome {
    pub created: usize,
    /// That were there before.
    pub found: usize,
    /// One line per entity or rule that is not as the file says, and one for each part of the file that
    /// has no effect.
    pub differences: Vec<String>,
}

impl Entities {
    pub fn read(path: &Path) -> anyhow::Result<Entities> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| terminal::usage(format!("'{file}': {error}")))?;
        let definitions = definitions::read_emulator(&text, &file);
        let problems = match &definitions {
            Ok(definitions) => definitions::problems(definitions),
            Err(problems) => problems.clone(),
        };
        match (definitions, problems.first()) {
            (Ok(definitions), None) => Ok(Entities(definitions)),
            _ => Err(terminal::usage(in_a_line(&problems))),
        }
    }

    /// Has those created that are missing; what is there is left as it is.
    pub async fn create(&self, client: &Client) -> anyhow::Result<Outcome> {
        let Entities(wanted) = self;
        let options = Options { keep: true, ..Options::default() };
        let listed = wanted.queues.len() + wanted.topics.len() + wanted.subscriptions.len();
        let mut created = 0;
        for _ in 0..PLANS_MAX {
            let found = topology::found(client).await?;
            let plan = definitions::plan(wanted, &found, options)
                .map_err(|problems| anyhow::anyhow!(in_a_line(&problems)))?;
            match follow(client, &plan, &mut created).await {
                Err(error) if is_taken(&error) => (),
                Err(error) => return Err(error),
                Ok(()) => {
                    let differences = differences(&plan);
                    return Ok(Outcome { created, found: listed - created, differences });
                }
            }
        }
        anyhow::bail!(
            "others create and delete the same entities meanwhile; start again without them"
        )
    }
}

/// Programs that start at the same time create what they need: what is taken meanwhile is found by the
/// next plan.
const PLANS_MAX: usize = 8;

async fn follow(client: &Client, plan: &Plan, created: &mut usize) -> anyhow::Result<()> {
    for step in &plan.steps {
        topology::apply(client, step).await?;
        *created += usize::from(matches!(step.change, Change::Create { .. }));
    }
    Ok(())
}

fn is_taken(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<client::Error>();
    refused.is_some_and(|error| error.name() == "MessagingEntityAlreadyExists")
}

fn differences(plan: &Plan) -> Vec<String> {
    let kept = plan.kept.iter().map(|difference| {
        format!(
            "left as it was, and the file says otherwise: {difference}; 'mayfly definitions apply' \
             makes it as the file says"
        )
    });
    plan.notes.iter().cloned().chain(kept).collect()
}

/// A failure is one line.
fn in_a_line(problems: &[definitions::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
