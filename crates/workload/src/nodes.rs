//! What nodes use: memory, device bytes, work done. From their `/metrics`, so it works for any node
//! whose HTTP port answers.

use std::collections::BTreeMap;

use client::Client;
use serde::Serialize;

use crate::Metrics;
use crate::way::Way;

/// Metrics a node reports of its own process and store.
pub(crate) mod name {
    pub const RESIDENT_ANONYMOUS: &str = "process_resident_anonymous_bytes";
    pub const DEVICE_WRITTEN: &str = "process_device_written_bytes_total";
    pub const CPU_SECONDS: &str = "process_cpu_seconds_total";
    pub const LOG_BYTES: &str = "mayfly_log_disk_bytes";
    pub const ROWS_BYTES: &str = "mayfly_rows_disk_bytes";
    pub const ROWS_WRITTEN: &str = "mayfly_rows_written_total";
}

/// One look at every node of a cluster that answers, by node id.
#[derive(Clone, Debug, Default)]
pub struct NodeLook {
    pub nodes: BTreeMap<u64, Metrics>,
}

/// Looks at every node now.
pub async fn look(client: &Client) -> NodeLook {
    let mut look = NodeLook::default();
    let Ok(status) = client.status(true).await else { return look };
    let Ok(way) = Way::of(client) else { return look };
    for node in status.nodes {
        let address = node.http_address.as_str();
        let stream = way.to(address);
        if let Some(metrics) =
            Metrics::fetch_over(stream, address, client.secret().as_deref()).await
        {
            look.nodes.insert(node.id, metrics);
        }
    }
    look
}

/// What one node used between two looks. Absent: it did not say.
#[derive(Clone, Debug, Serialize)]
pub struct NodeUse {
    pub node: u64,
    /// RssAnon at the end.
    pub resident_anonymous_bytes: Option<u64>,
    pub device_written_bytes: Option<u64>,
    pub cpu_seconds: Option<f64>,
    pub rows_written: Option<u64>,
}

impl NodeLook {
    /// What each node used since `earlier`.
    pub fn since(&self, earlier: &NodeLook) -> Vec<NodeUse> {
        let used = |(node, now): (&u64, &Metrics)| {
            let before = earlier.nodes.get(node);
            let difference = |name: &str| {
                let now = now.sum(name)?;
                let before = before.and_then(|before| before.sum(name)).unwrap_or(0.0);
                // Less than before: the process is a new one and counts from zero.
                Some(if now >= before { now - before } else { now })
            };
            NodeUse {
                node: *node,
                resident_anonymous_bytes: now
                    .sum(name::RESIDENT_ANONYMOUS)
                    .map(|bytes| bytes as u64),
                device_written_bytes: difference(name::DEVICE_WRITTEN).map(|bytes| bytes as u64),
                cpu_seconds: difference(name::CPU_SECONDS),
                rows_written: difference(name::ROWS_WRITTEN).map(|rows| rows as u64),
            }
        };
        self.nodes.iter().map(used).collect()
    }

    /// One histogram over all nodes, as recorded since `earlier`.
    pub fn buckets_since(&self, earlier: &NodeLook, name: &str) -> crate::Buckets {
        let mut total = crate::Buckets::default();
        for (node, now) in &self.nodes {
            let before = earlier.nodes.get(node).map(|before| before.buckets(name));
            total.add(&now.buckets(name).since(&before.unwrap_or_default()));
        }
        total
    }
}

/// Node figures as lines of a report.
pub(crate) struct Table<'a>(pub &'a [NodeUse]);

impl std::fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for node in self.0 {
            let mebibytes = |bytes: Option<u64>| {
                bytes.map_or("?".into(), |bytes| format!("{:.0} MiB", bytes as f64 / 1048576.0))
            };
            let cpu = node.cpu_seconds.map_or("?".into(), |seconds| format!("{seconds:.1} s"));
            writeln!(
                f,
                "  node {}       RssAnon {}, written {}, CPU {cpu}",
                node.node,
                mebibytes(node.resident_anonymous_bytes),
                mebibytes(node.device_written_bytes),
            )?;
        }
        Ok(())
    }
}
