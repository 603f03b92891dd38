//! Reports of nodes, byte for byte.

use engine::Candidate;
use replication::{DiskStatus, GroupStatus};
use wire::{Codec, Error, Reader};

use super::take;
use crate::clock::ClockReport;
use crate::exchange::{IdleReport, NodeReport};

impl Codec for NodeReport {
    fn put(&self, out: &mut Vec<u8>) {
        self.disk.free_bytes.put(out);
        self.disk.reserve_bytes.put(out);
        self.disk.low.put(out);
        self.clock.off_ms.put(out);
        self.clock.agrees.put(out);
        (self.groups.len() as u64).put(out);
        self.groups.iter().for_each(|group| put_group(group, out));
    }

    fn take(input: &mut Reader<'_>) -> Result<NodeReport, Error> {
        let (free_bytes, reserve_bytes) = (u64::take(input)?, u64::take(input)?);
        let disk = DiskStatus { free_bytes, reserve_bytes, low: bool::take(input)? };
        let clock = ClockReport { off_ms: Codec::take(input)?, agrees: Codec::take(input)? };
        let count = input.count()?;
        let groups = (0..count).map(|_| take_group(input)).collect::<Result<_, _>>()?;
        Ok(NodeReport { disk, clock, groups })
    }
}

fn put_group(group: &GroupStatus, out: &mut Vec<u8>) {
    let GroupStatus {
        id,
        term,
        leader,
        leading,
        last_log,
        committed,
        applied,
        flushed,
        purged,
        voters,
        learners,
        matched,
        heard_ms,
        confirmed_ms: _, // Of a leader it follows from whom it heard.
        failed,
    } = group;
    id.put(out);
    term.put(out);
    leader.put(out);
    leading.put(out);
    for index in [last_log, committed, applied, flushed, purged] {
        index.put(out);
    }
    voters.iter().copied().collect::<Vec<u64>>().put(out);
    learners.iter().copied().collect::<Vec<u64>>().put(out);
    matched.put(out);
    heard_ms.put(out);
    failed.put(out);
}

fn take_group(input: &mut Reader<'_>) -> Result<GroupStatus, Error> {
    let mut group = GroupStatus {
        id: Codec::take(input)?,
        term: Codec::take(input)?,
        leader: Codec::take(input)?,
        leading: Codec::take(input)?,
        last_log: Codec::take(input)?,
        committed: Codec::take(input)?,
        applied: Codec::take(input)?,
        flushed: Codec::take(input)?,
        purged: Codec::take(input)?,
        voters: Vec::<u64>::take(input)?.into_iter().collect(),
        learners: Vec::<u64>::take(input)?.into_iter().collect(),
        matched: Codec::take(input)?,
        heard_ms: Codec::take(input)?,
        confirmed_ms: None,
        failed: Codec::take(input)?,
    };
    group.confirmed_ms = group.leading.then(|| group.majority_heard_ms()).flatten();
    Ok(group)
}

impl Codec for IdleReport {
    fn put(&self, out: &mut Vec<u8>) {
        (self.candidates.len() as u64).put(out);
        for (group, Candidate { entity, name, idle_since }) in &self.candidates {
            group.put(out);
            entity.put(out);
            name.put(out);
            idle_since.put(out);
        }
        self.used.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<IdleReport, Error> {
        let count = input.count()?;
        let candidate = |_| {
            let (group, entity) = take(input)?;
            let (name, idle_since) = take(input)?;
            Ok((group, Candidate { entity, name, idle_since }))
        };
        let candidates = (0..count).map(candidate).collect::<Result<_, Error>>()?;
        Ok(IdleReport { candidates, used: take(input)? })
    }
}

#[cfg(test)]
mod tests {
    use domain::GroupId;

    use super::*;

    #[test]
    fn a_report_survives_the_wire() {
        let status = |id, failed: Option<&str>| GroupStatus {
            id: GroupId(id),
            term: 7,
            leader: Some(2),
            leading: false,
            last_log: Some(41),
            committed: Some(40),
            applied: Some(40),
            flushed: None,
            purged: None,
            voters: [1, 2, 3].into(),
            learners: [].into(),
            matched: [(2, Some(5)), (3, None)].into(),
            heard_ms: [(2, Some(3)), (3, None)].into(),
            confirmed_ms: None,
            failed: failed.map(str::to_owned),
        };
        let disk = DiskStatus { free_bytes: 9 << 20, reserve_bytes: 10 << 20, low: true };
        let clock = ClockReport { off_ms: Some(-31_557_600_000), agrees: false };
        let groups = vec![status(1, None), status(3, Some("disk"))];
        let report = NodeReport { disk, clock, groups };
        assert_eq!(NodeReport::decode(&report.encode()).ok(), Some(report));
    }
}
