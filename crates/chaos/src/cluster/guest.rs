//! A node that joins a cluster that runs, and leaves it again. It takes replicas over from the others
//! and gives them back: each of them is a change of a group's members.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::v1::{NodeRole, NodeStatus, StatusResponse};

use super::{Addresses, CONFIG, Cluster, DATA, LOOPBACK, Own, Text, free_ports, launch};
use crate::Error;
use crate::process::Process;
use crate::proxy::Gate;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Numbers of nodes with certificates that join come after those.
const FOUNDERS_MAX: u64 = 100;
/// With what a node ends that was removed from its cluster.
const REMOVED: i32 = 3;

/// Such a node.
pub struct Guest {
    process: Process,
    home: PathBuf,
    /// By which it is found in what the cluster says of its nodes.
    grpc: String,
}

impl Cluster {
    /// Starts a node that asks to be taken in, unless one is there still, and waits until it was given
    /// replicas. Its number; or why it has none in time.
    pub async fn invite(&mut self, patience: Duration) -> Result<Result<u64, String>, Error> {
        if self.guest.is_none() {
            self.guest = Some(self.start_guest()?);
        }
        let until = Instant::now() + patience;
        loop {
            let status = self.observer()?.status(false).await;
            let told = match status.as_ref().map(|status| self.guest_in(status)) {
                Ok(Some(node)) if node.role() == NodeRole::Active && node.replicas > 0 => {
                    return Ok(Ok(node.id));
                }
                Ok(Some(node)) => {
                    format!(
                        "it is {} and holds {} replicas",
                        node.role().as_str_name(),
                        node.replicas
                    )
                }
                Ok(None) => "nobody knows it".to_owned(),
                Err(error) => error.to_string(),
            };
            if Instant::now() > until {
                return Ok(Err(format!("a node was given no replica within {patience:?}: {told}")));
            }
            self.revive_all().await?;
        }
    }

    /// Has it drained and removed, and waits until its process has ended for that; without one, does
    /// nothing. `Err`: what is left to do, which goes on, and can be waited for again; or that it ended
    /// for another reason.
    pub async fn dismiss(&mut self, patience: Duration) -> Result<Result<(), String>, Error> {
        let until = Instant::now() + patience;
        while let Some(guest) = &mut self.guest {
            match guest.process.end() {
                None => (),
                Some((Some(REMOVED), _)) => {
                    let home = guest.home.clone();
                    self.guest = None;
                    std::fs::remove_dir_all(&home)
                        .map_err(Error::io(home.display().to_string()))?;
                    break;
                }
                Some((_, told)) => {
                    return Ok(Err(format!("a node that had joined ended by itself: {told}")));
                }
            }
            let told = self.see_off().await?;
            if Instant::now() > until {
                return Ok(Err(format!("a node has not left within {patience:?}: {told}")));
            }
            self.revive_all().await?;
        }
        Ok(Ok(()))
    }

    /// The next step of its leaving; what it waits for.
    async fn see_off(&self) -> Result<String, Error> {
        let observer = self.observer()?;
        let status = match observer.status(false).await {
            Ok(status) => status,
            Err(error) => return Ok(error.to_string()),
        };
        let Some(node) = self.guest_in(&status) else {
            return Ok("it was removed, and runs".to_owned());
        };
        let (id, held) = (node.id, node.replicas);
        // What is refused now, or perhaps done, is asked again at the next look.
        let asked = match node.role() {
            NodeRole::Active => observer.drain_node(id, false).await,
            NodeRole::Drained => observer.remove_node(id, false).await,
            _ => Ok(()),
        };
        let error = asked.err().map(|error| format!("; {error}")).unwrap_or_default();
        Ok(format!("it is {} and holds {held} replicas{error}", node.role().as_str_name()))
    }

    fn guest_in<'a>(&self, status: &'a StatusResponse) -> Option<&'a NodeStatus> {
        let guest = self.guest.as_ref()?;
        status.nodes.iter().find(|node| node.grpc_address == guest.grpc)
    }

    fn start_guest(&mut self) -> Result<Guest, Error> {
        self.guests += 1;
        let Some(Own { dir, settings }) = &self.own else {
            return Err(Error::Wrong("a node can join a cluster that was started here".to_owned()));
        };
        let ports = free_ports(4).map_err(Error::io("ports"))?;
        // Where nodes have namespaces it is beside them, at an address that nothing hurts.
        let host = self.namespaces.as_ref().map(|namespaces| namespaces.unhurt_address_of(0));
        let host = host.as_deref().unwrap_or(LOOPBACK);
        let addresses = Addresses::of_ports(host, &ports);
        let home = dir.path().join(format!("guest-{}", ports[0]));
        let data = home.join(DATA);
        std::fs::create_dir_all(&home).map_err(Error::io(home.display().to_string()))?;
        let path = home.join(CONFIG);
        let (listen, secret) = (&addresses, self.login.secret.as_deref());
        // Its number is the one in its certificate, and no former guest's.
        let tls = match &self.certificates {
            None => String::new(),
            Some(certificates) => {
                let number = FOUNDERS_MAX + self.guests;
                certificates.issue(number, host)?;
                certificates.section(number)
            }
        };
        let keys = self.keys_section();
        let synced = settings.synced;
        let text = Text { data: &data, listen, synced, secret, tls: &tls, keys: &keys };
        std::fs::write(&path, text.guest()).map_err(Error::io(path.display().to_string()))?;
        let mut process = Process::new(launch(settings, &settings.program, &home), Gate::default());
        let seeds: Vec<&str> = self.direct.values().map(String::as_str).collect();
        process.start(&[format!("--join={}", seeds.join(","))])?;
        Ok(Guest { process, home, grpc: addresses.grpc })
    }

    /// Starts again what ended by itself, and lets some time pass.
    async fn revive_all(&mut self) -> Result<(), Error> {
        for process in self.nodes.values_mut() {
            process.revive()?;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }
}
