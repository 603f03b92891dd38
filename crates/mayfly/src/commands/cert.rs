//! `mayfly cert`.

mod show;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use transport::NodeUri;

use crate::authority::{Authority, Issued, pem_blocks};
use crate::files::{self, Existing, Readers};
use crate::input::{duration, instant};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly cert authority                          once for a cluster
  mayfly cert node 1 node1.example 10.0.0.1      and so on: by the hosts that others reach it by
  mayfly cert client orders-worker
  mayfly cert show mayfly-certs/node-1.pem

Nodes get authority.pem and their own pair, clients authority.pem and theirs. authority.key signs: it
belongs to no node, and whoever has it makes nodes.

A new authority, without a moment in which somebody is not trusted:
  mayfly cert authority --add                    authority.pem has both: copy it to all nodes
  mayfly cert node 1 node1.example --overwrite   and so on
  mayfly cert authority --retire                 authority.pem has the new one alone: copy it again";

/// In the directory of certificates.
const AUTHORITY: &str = "authority";
/// As kubeadm has it: the authority for ten years, what it signs for one.
const AUTHORITY_VALID_FOR: &str = "3650days";
const VALID_FOR: &str = "365days";
/// Of a common name (RFC 5280, appendix A.1).
const NAME_LETTERS_MAX: usize = 64;
const HOUR: Duration = Duration::from_secs(3600);
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CertArgs {
    #[command(subcommand)]
    command: CertCommand,
}

#[derive(Debug, Subcommand)]
enum CertCommand {
    /// Make an authority, which signs the certificates of a cluster
    Authority {
        /// What it is called
        #[arg(long, value_name = "NAME", default_value = "Mayfly authority", value_parser = name)]
        name: String,
        /// How long it counts
        #[arg(long, value_name = "DURATION", default_value = AUTHORITY_VALID_FOR)]
        #[arg(value_parser = valid_for)]
        valid_for: Duration,
        /// Make another, which signs from now on, and go on trusting the one that is there
        #[arg(long, conflicts_with_all = ["overwrite", "retire"])]
        add: bool,
        /// Trust the one that signs alone; makes nothing
        #[arg(long, conflicts_with_all = ["overwrite", "name", "valid_for"])]
        retire: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Make the certificate of a node, for its peers and for clients
    Node {
        /// Its number in [[cluster.node]]
        #[arg(value_name = "ID", value_parser = clap::value_parser!(u64).range(1..=65_535))]
        node: u64,
        /// Host names and addresses that others reach it by
        #[arg(value_name = "HOST", required = true, value_parser = host)]
        hosts: Vec<String>,
        /// Good for the cluster of this id only, where one authority serves several
        #[arg(long, value_name = "ID", value_parser = cluster)]
        cluster: Option<String>,
        /// How long it counts
        #[arg(long, value_name = "DURATION", default_value = VALID_FOR, value_parser = valid_for)]
        valid_for: Duration,
        #[command(flatten)]
        place: Place,
    },
    /// Make the certificate of a client, which stands for the key of its name where [tls.clients] is set
    Client {
        /// What it and its key are called
        #[arg(value_name = "NAME", value_parser = file_name)]
        name: String,
        /// Good for the cluster of this id only, where one authority serves several
        #[arg(long, value_name = "ID", value_parser = cluster)]
        cluster: Option<String>,
        /// How long it counts
        #[arg(long, value_name = "DURATION", default_value = VALID_FOR, value_parser = valid_for)]
        valid_for: Duration,
        #[command(flatten)]
        place: Place,
    },
    /// Show what a file of certificates holds, and whether a key is that of its first
    Show {
        /// PEM
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Its private key; by default the file of the same name that ends in .key, if there is one
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Where certificates are written.
#[derive(Debug, clap::Args)]
struct Place {
    /// Where the authority is, and what is made is written
    #[arg(long, env = "MAYFLY_CERTS", value_name = "PATH", default_value = "mayfly-certs")]
    dir: PathBuf,
    /// Replace what is there
    #[arg(long)]
    overwrite: bool,
}

/// The files of a certificate and its key.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

pub fn run(args: CertArgs) -> anyhow::Result<()> {
    match args.command {
        CertCommand::Authority { retire: true, place, .. } => retire(&place),
        CertCommand::Authority { name, valid_for, add, retire: false, place } => {
            let issued = Authority::make(&name, valid_for)?;
            if add { place.add(issued) } else { place.keep(AUTHORITY, &issued) }
        }
        CertCommand::Node { node, hosts, cluster, valid_for, place } => {
            let uri = NodeUri { cluster, node };
            let issued = place.authority()?.node(&uri, &hosts, valid_for)?;
            place.keep(&format!("node-{node}"), &issued)
        }
        CertCommand::Client { name, cluster, valid_for, place } => {
            let issued = place.authority()?.client(&name, cluster.as_deref(), valid_for)?;
            place.keep(&format!("client-{name}"), &issued)
        }
        CertCommand::Show { file, key, json } => show::run(&file, key.as_deref(), json),
    }
}

impl Place {
    fn pair(&self, name: &str) -> Pair {
        let path = |end: &str| self.dir.join(format!("{name}.{end}"));
        Pair { certificate: path("pem"), key: path("key") }
    }

    fn authority(&self) -> anyhow::Result<Authority> {
        let Pair { certificate, key } = self.pair(AUTHORITY);
        Authority::load(&certificate, &key)
    }

    /// Writes both files, or neither where one is there that is not to be replaced.
    fn keep(&self, name: &str, issued: &Issued) -> anyhow::Result<()> {
        let pair = self.pair(name);
        let there = [&pair.certificate, &pair.key].into_iter().find(|path| path.exists());
        if let Some(there) = there.filter(|_| !self.overwrite) {
            let add = if name == AUTHORITY { "--add for a second one, or " } else { "" };
            return Err(terminal::usage(format!(
                "'{}' is there already; pass {add}--overwrite to replace it, or another --dir",
                there.display()
            )));
        }
        files::private_dir(&self.dir)?;
        pair.write(issued, self.existing())?;
        pair.tell(issued)
    }

    fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replaced } else { Existing::Kept }
    }

    /// The new authority stands first in the file of those that are trusted, and signs.
    fn add(&self, issued: Issued) -> anyhow::Result<()> {
        self.authority()?; // Whoever adds has one that is whole.
        let pair = self.pair(AUTHORITY);
        let former = fs::read_to_string(&pair.certificate)?;
        let certificate = format!("{}{former}", issued.certificate);
        pair.write(&Issued { certificate, ..issued }, Existing::Replaced)?;
        terminal::line(format!(
            "{} trusts the new authority and the former; copy it to every node, make the nodes' \
             certificates anew, then: mayfly cert authority --retire",
            pair.certificate.display()
        ))
    }
}

/// Leaves the authority that signs as the only one that is trusted.
fn retire(place: &Place) -> anyhow::Result<()> {
    let Pair { certificate, key } = place.pair(AUTHORITY);
    place.authority()?;
    let (text, key) = (fs::read_to_string(&certificate)?, fs::read_to_string(&key)?);
    let former = pem_blocks(&text).count();
    let signs = pem_blocks(&text).find(|block| Authority::from_pem(block, &key).is_ok());
    let signs =
        signs.with_context(|| format!("'{}' was replaced just now", certificate.display()))?;
    files::write(&certificate, &format!("{signs}\n"), Readers::All, Existing::Replaced)?;
    terminal::line(format!(
        "{} trusts one authority, and {} no more; copy it to every node",
        certificate.display(),
        former - 1
    ))
}

impl Pair {
    /// The key first: a certificate without its key is of no use to anybody, nor in anybody's way.
    fn write(&self, issued: &Issued, existing: Existing) -> anyhow::Result<()> {
        files::write(&self.key, &issued.key, Readers::Owner, existing)?;
        files::write(&self.certificate, &issued.certificate, Readers::All, existing)
    }

    fn tell(&self, issued: &Issued) -> anyhow::Result<()> {
        terminal::line(format!(
            "{} and {}, until {}",
            self.certificate.display(),
            self.key.display(),
            instant::show_ms(issued.not_after * 1000)
        ))?;
        if issued.is_shortened {
            terminal::note("it ends with the authority, which is earlier than asked");
        }
        Ok(())
    }
}

fn valid_for(text: &str) -> Result<Duration, String> {
    let told = duration::parse(text)?;
    match (HOUR..=CENTURY).contains(&told) {
        true => Ok(told),
        false => Err(format!("'{text}' is not from 1h to 100years")),
    }
}

fn host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    match transport::is_host(name) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "'{text}' is no host; write its name or address, with neither scheme nor port"
        )),
    }
}

fn cluster(text: &str) -> Result<String, String> {
    let uri = NodeUri { cluster: Some(text.to_owned()), node: 1 };
    match uri.to_string().parse::<NodeUri>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!(
            "'{text}' is no id of a cluster; write cluster.id as the nodes have it, 32 hexadecimal digits \
             in small letters"
        )),
    }
}

fn name(text: &str) -> Result<String, String> {
    let letters = text.chars().count();
    match letters > 0 && letters <= NAME_LETTERS_MAX && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("a name has 1 to {NAME_LETTERS_MAX} letters, in one line")),
    }
}

/// Also a part of a file's name.
fn file_name(text: &str) -> Result<String, String> {
    let text = name(text)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match text.chars().all(is_plain) && !text.starts_with('.') {
        true => Ok(text),
        false => Err(format!("'{text}' has more than letters, digits, '-', '_' and '.'")),
    }
}

/// Whether a path is that of a pair's key: the certificate's name that ends in .key.
fn key_beside(certificate: &Path) -> Option<PathBuf> {
    Some(certificate.with_extension("key")).filter(|key| key.exists() && key != certificate)
}

#[cfg(test)]
mod tests;
