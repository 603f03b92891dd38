//! Where a run takes place: a cluster of its own, or one that is there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use chaos::{Cluster, FaultKind, Settings};
use client::{Client, ClientOptions};

use crate::Error;
use crate::entrance::Entrance;
use crate::file::ExperimentFile;
use crate::plan::Plan;
use crate::program;
use crate::rules::RulesInForce;

/// Groups with data in a cluster of its own: few, so that faults meet leaders.
const DATA_GROUPS: u16 = 3;
/// On each node, for the record of what happens to messages.
const MESSAGE_HISTORY_MEBIBYTES: u32 = 64;
/// The rule whose key a cluster's secret is.
const ROOT: &str = "RootManageSharedAccessKey";
/// Any will do where none is asked for.
const ANY_KEY: &str = "SAS_KEY_VALUE";

/// Told now and then what is going on, in a line.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Whom it is done to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A cluster of its own, of this binary.
    Own { program: PathBuf },
    /// One that runs already, by the native addresses of some of its nodes, and where programs find it: AMQP as
    /// `host:port`, with `amqps://` before it where that speaks TLS, and HTTP.
    Given {
        addresses: Vec<String>,
        options: Box<ClientOptions>,
        amqp: String,
        http: Option<String>,
    },
}

/// A cluster that is ready, and what programs are told of it. Dropped, one of its own is gone.
pub struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) plan: Plan,
    pub(crate) rules: RulesInForce,
    client: Client,
    env: BTreeMap<String, String>,
    _entrance: Option<Entrance>,
}

impl Stage {
    /// Looks whether programs are there, and starts the cluster, or looks whether the given one will do.
    ///
    /// # Errors
    /// [`Error::Wrong`]: a program or the target is not there, or does not do what the file asks for; nothing was
    /// created then.
    pub async fn set_up(
        file: &ExperimentFile,
        target: &Target,
        tell: &Tell,
    ) -> Result<Stage, Error> {
        for spec in &file.programs {
            program::find(spec).map_err(Error::Wrong)?;
        }
        match target {
            Target::Own { program } => {
                tell(&format!("starting a cluster, nodes: {}", file.nodes));
                Stage::start(file, program.clone()).await
            }
            Target::Given { addresses, options, amqp, http } => {
                let http = http.as_deref();
                Stage::join(file, addresses, *options.clone(), (amqp, http)).await
            }
        }
    }

    async fn start(file: &ExperimentFile, program: PathBuf) -> Result<Stage, Error> {
        let plan = Plan::of(file, file.nodes, DATA_GROUPS.into());
        let settings = Settings {
            program,
            nodes: file.nodes,
            data_groups: DATA_GROUPS,
            synced: true,
            small_disks: plan.node_faults.iter().any(|fault| fault.kind == FaultKind::FullDisk),
            namespaces: false,
            tls: false,
            keys: false,
            previous: None,
            message_history_mebibytes: Some(MESSAGE_HISTORY_MEBIBYTES),
        };
        let cluster = Cluster::start(&settings).await?;
        let client = cluster.observer()?;
        let entrance = Entrance::open(cluster.amqp().addresses).await;
        let entrance = entrance.map_err(Error::io("no port for programs"))?;
        let (http, grpc) = cluster.http_and_grpc();
        // SDKs go without TLS to this host only.
        let address = format!("localhost:{}", entrance.port);
        let http = http.first().map(|http| http.replace("127.0.0.1", "localhost"));
        let env = env(&connection_string(&address, ROOT, ANY_KEY, true), grpc, http.as_deref());
        let rules = RulesInForce::default();
        Ok(Stage { cluster, plan, rules, client, env, _entrance: Some(entrance) })
    }

    async fn join(
        file: &ExperimentFile,
        addresses: &[String],
        options: ClientOptions,
        (amqp, http): (&str, Option<&str>),
    ) -> Result<Stage, Error> {
        let wrong = |error: client::Error| Error::Wrong(one_line(&error.to_string()));
        let client = Client::with_options(addresses, options.clone()).map_err(wrong)?;
        client.now().await.map_err(wrong)?;
        // Refused where nothing is recorded.
        client.follow_history().await.map_err(wrong)?;
        let cluster = Cluster::join(addresses, options.clone(), None).await;
        let cluster = cluster.map_err(|error| Error::Wrong(one_line(&error.to_string())))?;
        let groups = cluster.groups.saturating_sub(1) as u32;
        let plan = Plan::of(file, cluster.ids().len() as u64, groups);
        if let Some(fault) = plan.node_faults.iter().find(|fault| !fault.kind.needs_no_process()) {
            let kind = fault.kind;
            let told = format!("node_faults: {kind} needs a cluster of its own; leave --connect");
            return Err(Error::Wrong(told));
        }
        let (plain, host) = match amqp.split_once("://") {
            Some((scheme, host)) => (scheme != "amqps", host),
            None => (true, amqp),
        };
        let host = host.replace("127.0.0.1", "localhost");
        let key_name = options.key_name.as_deref().unwrap_or(ROOT);
        let key = options.secret.as_deref().unwrap_or(ANY_KEY);
        let env = env(&connection_string(&host, key_name, key, plain), addresses, http);
        let rules = RulesInForce::default();
        Ok(Stage { cluster, plan, rules, client, env, _entrance: None })
    }

    /// Past all links: for looking on.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What programs are told.
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Leaves no rule in force in somebody else's cluster, as far as it lets itself be asked.
    ///
    /// # Errors
    /// One is in force still.
    pub async fn clear(&mut self) -> Result<(), Error> {
        self.rules.take(&self.client).await.map(drop)
    }
}

fn env(string: &str, nodes: &[String], http: Option<&str>) -> BTreeMap<String, String> {
    let nodes = nodes.join(",");
    let told = [
        ("MAYFLY_CONNECTION_STRING", Some(string.to_owned())),
        ("MAYFLY_NODES", Some(nodes.clone())),
        // What commands of `mayfly` take.
        ("MAYFLY_CONNECT", Some(nodes)),
        ("MAYFLY_HTTP", http.map(str::to_owned)),
    ];
    told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// As Azure's SDKs take it.
fn connection_string(host: &str, key_name: &str, key: &str, plain: bool) -> String {
    let emulator = if plain { "UseDevelopmentEmulator=true;" } else { "" };
    format!("Endpoint=sb://{host};SharedAccessKeyName={key_name};SharedAccessKey={key};{emulator}")
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_where_the_cluster_is() {
        let string = connection_string("localhost:5672", ROOT, ANY_KEY, true);
        let nodes = ["127.0.0.1:5310".to_owned(), "127.0.0.1:6310".to_owned()];
        let env = env(&string, &nodes, None);
        let told: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            told,
            [
                ("MAYFLY_CONNECT", "127.0.0.1:5310,127.0.0.1:6310"),
                (
                    "MAYFLY_CONNECTION_STRING",
                    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;\
                     SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
                ),
                ("MAYFLY_NODES", "127.0.0.1:5310,127.0.0.1:6310"),
            ]
        );
        let string = connection_string("broker:5671", "app", "key", false);
        assert_eq!(
            string,
            "Endpoint=sb://broker:5671;SharedAccessKeyName=app;SharedAccessKey=key;"
        );
    }
}
