//! What is kept, and that all of it can be read.

use std::collections::BTreeSet;
use std::fs;
use std::future::{pending, ready};
use std::time::Duration;

use futures::TryStreamExt;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::{AT_MS, back_up, in_directory, in_memory, key, names, read, told};
use crate::error::Error;
use crate::repository::Repository;
use crate::retention::Retention;

const HOUR_MS: u64 = 3_600_000;
const NONE: Retention =
    Retention { keep_last: 0, keep_within: None, keep_hourly: 0, keep_daily: 0 };

/// Each row: what is said, and which of these are kept: hours before the newest, 09:15 UTC.
#[tokio::test]
async fn a_retention_keeps_what_any_of_its_words_says() {
    const AGES: [u64; 7] = [0, 1, 2, 9, 10, 24, 48];
    let within =
        |hours: u64| Retention { keep_within: Some(Duration::from_secs(hours * 3600)), ..NONE };
    let repository = in_memory(None).await;
    for age in AGES.iter().rev() {
        back_up(&repository, AT_MS - age * HOUR_MS, &[]).await.expect("backed up");
        if *age == 10 {
            back_up(&repository, AT_MS - age * HOUR_MS + 60_000, &[]).await.expect("backed up");
        }
    }
    for (retention, kept) in [
        (Retention { keep_last: 1, ..NONE }, &[0][..]),
        (Retention { keep_last: 3, ..NONE }, &[0, 1, 2]),
        (Retention { keep_last: 100, ..NONE }, &[0, 1, 2, 9, 9, 10, 24, 48]),
        (within(0), &[0]),
        (within(24), &[0, 1, 2, 9, 9, 10, 24]),
        (Retention { keep_hourly: 5, ..NONE }, &[0, 1, 2, 9, 9]),
        (Retention { keep_hourly: 6, ..NONE }, &[0, 1, 2, 9, 9, 24]),
        (Retention { keep_daily: 2, ..NONE }, &[0, 9]),
        (Retention { keep_daily: 9, ..NONE }, &[0, 9, 48]),
        (Retention { keep_daily: 2, keep_last: 2, ..within(2) }, &[0, 1, 2, 9]),
    ] {
        let pruned = repository.prune(&retention, true, pending()).await.expect("counted");
        let ages = pruned.kept.iter().map(|summary| (AT_MS - summary.cut.taken_at_ms) / HOUR_MS);
        assert_eq!(ages.collect::<Vec<_>>(), kept, "{retention:?}");
        assert_eq!(pruned.kept.len() + pruned.removed.len(), AGES.len() + 1);
    }
    let error = repository.prune(&NONE, false, pending()).await.expect_err("nothing is said");
    assert!(error.is_usage(), "{error}");
    assert_eq!(names(&repository).await.len(), AGES.len() + 1);
}

async fn objects(repository: &Repository, folder: &'static str) -> BTreeSet<String> {
    repository.store.list(folder).map_ok(|listed| listed.name).try_collect().await.expect("listed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// After any backups, and any that were broken off: what is kept is whole, and nothing else is there.
    #[test]
    fn what_is_kept_is_whole_and_the_rest_is_gone(
        backups in vec(btree_set(0_u8..12, 0..6), 1..8),
        keep_last in 1_u32..5,
        encrypted: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
        runtime.block_on(async {
            let repository = in_memory(encrypted.then(key).as_ref()).await;
            for (chunks, at_ms) in backups.iter().zip((AT_MS..).step_by(1000)) {
                let texts: Vec<Vec<u8>> = chunks.iter().map(|chunk| vec![*chunk; 40]).collect();
                let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
                back_up(&repository, at_ms, &[(1, &texts)]).await.expect("backed up");
            }
            let mut broken = crate::Writer::begin(&repository).await.expect("begun");
            super::put(&mut broken, b"of no backup").await.expect("given");
            broken.abandon().await;
            let retention = Retention { keep_last, ..NONE };
            let counted = repository.prune(&retention, true, pending()).await.expect("counted");
            let before = objects(&repository, "chunks").await;
            let pruned = repository.prune(&retention, false, pending()).await.expect("pruned");
            assert_eq!((counted.chunks, counted.bytes), (pruned.chunks, pruned.bytes));
            let after = objects(&repository, "chunks").await;
            assert_eq!(before.len() - after.len(), pruned.chunks as usize);
            let kept = &backups[backups.len().saturating_sub(keep_last as usize)..];
            let named: BTreeSet<u8> = kept.iter().flatten().copied().collect();
            assert_eq!(after.len(), named.len());
            let listing = repository.list().await.expect("listed");
            assert_eq!(listing.backups.len(), kept.len());
            for (summary, chunks) in listing.backups.iter().zip(kept.iter().rev()) {
                let manifest = repository.manifest(Some(&summary.name)).await.expect("there");
                assert_eq!(read(&repository, &manifest).await.expect("read").len(), chunks.len());
            }
            assert_eq!(objects(&repository, "contents").await.len(), kept.len());
        });
    }
}

#[tokio::test]
async fn a_damaged_backup_keeps_everything_where_it_is() {
    let (dir, repository) = in_directory(None).await;
    for (at_ms, text) in [(AT_MS, b"a"), (AT_MS + 1000, b"b")] {
        back_up(&repository, at_ms, &[(1, &[text])]).await.expect("backed up");
    }
    for object in ["backups/2026-11-27T09-15-00Z", "contents/2026-11-27T09-15-01Z"] {
        let path = dir.path().join(object);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[1..]).expect("written");
        let error = repository
            .prune(&Retention { keep_last: 1, ..NONE }, false, pending())
            .await
            .expect_err("told");
        assert!(matches!(error, Error::Damaged { .. }) && told(&error).contains(object), "{error}");
        fs::write(&path, whole).expect("written");
    }
    assert_eq!(objects(&repository, "chunks").await.len(), 2);
}

#[tokio::test]
async fn clusters_of_one_repository_are_counted_each_by_itself() {
    let repository = in_memory(None).await;
    for (at_ms, cluster) in
        [(AT_MS, "old"), (AT_MS + 1000, "old"), (AT_MS + 2000, "new"), (AT_MS + 3000, "new")]
    {
        let writer = crate::Writer::begin(&repository).await.expect("begun");
        let cut = crate::Cut { cluster_id: cluster.into(), ..super::cut(at_ms) };
        writer.finish(cut, &[]).await.expect("backed up");
    }
    let pruned = repository
        .prune(&Retention { keep_last: 1, ..NONE }, false, pending())
        .await
        .expect("pruned");
    assert_eq!((pruned.kept.len(), pruned.removed.len()), (2, 2));
    assert_eq!(names(&repository).await, ["2026-11-27T09-15-03Z", "2026-11-27T09-15-01Z"]);
}

#[tokio::test]
async fn a_prune_that_is_stopped_lets_others_come_and_the_next_goes_on() {
    let (_dir, repository) = in_directory(None).await;
    for (at_ms, text) in [(AT_MS, b"a"), (AT_MS + 1000, b"b")] {
        back_up(&repository, at_ms, &[(1, &[text])]).await.expect("backed up");
    }
    let keep = Retention { keep_last: 1, ..NONE };
    let error = repository.prune(&keep, false, ready(())).await.expect_err("stopped");
    assert!(matches!(error, Error::Stopped { .. }), "{}", told(&error));
    let pruned = repository.prune(&keep, false, pending()).await.expect("not busy");
    assert_eq!((pruned.removed.len(), pruned.chunks), (1, 1));
}

/// Files that others laid there are not ours to delete.
#[tokio::test]
async fn what_is_not_of_backups_is_left() {
    let (dir, repository) = in_directory(None).await;
    back_up(&repository, AT_MS, &[(1, &[b"a"])]).await.expect("backed up");
    let others = ["chunks/README", "backups/notes.txt", "contents/x", "mine"];
    for other in others {
        fs::write(dir.path().join(other), "x").expect("written");
    }
    repository.prune(&Retention { keep_last: 1, ..NONE }, false, pending()).await.expect("pruned");
    assert!(others.iter().all(|other| dir.path().join(other).exists()));
    assert_eq!(names(&repository).await.len(), 1);
}
