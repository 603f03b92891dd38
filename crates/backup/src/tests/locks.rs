//! One at a time, also where one was cut off, stood still, or came at the same moment.

use std::fs;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::scripted::Scripted;
use super::{
    AT_MS, back_up, cut, groups, in_directory, in_memory, names, put, repository_in, told,
};
use crate::error::Error;
use crate::lock::Times;
use crate::repository::Repository;
use crate::retention::Retention;
use crate::writer::Writer;

const KEEP_ONE: Retention =
    Retention { keep_last: 1, keep_within: None, keep_hourly: 0, keep_daily: 0 };

fn locks(dir: &TempDir) -> Vec<std::path::PathBuf> {
    let Ok(found) = fs::read_dir(dir.path().join("locks")) else { return Vec::new() };
    found.map(|entry| entry.expect("one").path()).collect()
}

/// As if the lock there had not been refreshed for so long.
fn age_lock(dir: &TempDir, by: Duration) {
    let [lock] = &locks(dir)[..] else { panic!("one lock: {:?}", locks(dir)) };
    let file = fs::File::options().write(true).open(lock).expect("a lock");
    file.set_modified(SystemTime::now() - by).expect("set");
}

#[tokio::test]
async fn a_second_backup_and_a_prune_are_told_who_is_at_work() {
    let (_dir, repository) = in_directory(None).await;
    let writer = Writer::begin(&repository).await.expect("begun");
    for error in [
        Writer::begin(&repository).await.err().expect("busy"),
        repository.prune(&KEEP_ONE, false, pending()).await.expect_err("busy"),
    ] {
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        let process = format!("(process {})", std::process::id());
        assert!(told(&error).contains("in use by 'mayfly backup create' on "), "{error}");
        assert!(told(&error).contains(&process), "{error}");
    }
    // It writes nothing, so it need not wait.
    repository.prune(&KEEP_ONE, true, pending()).await.expect("counted");
    writer.finish(cut(AT_MS), &[]).await.expect("backed up");
    repository.prune(&KEEP_ONE, false, pending()).await.expect("pruned");
    assert_eq!(names(&repository).await.len(), 1);
}

#[tokio::test]
async fn a_prune_keeps_backups_away_until_it_is_done() {
    let repository = in_memory(None).await;
    let lock = repository.lock("mayfly backup prune").await.expect("taken");
    let error = Writer::begin(&repository).await.err().expect("busy");
    assert!(told(&error).contains("'mayfly backup prune' on"), "{error}");
    lock.release().await;
    Writer::begin(&repository).await.expect("begun");
}

#[tokio::test]
async fn of_many_that_come_at_once_one_at_most_goes_on() {
    let mut winners = 0;
    for _ in 0..40 {
        let repository = quick(in_memory(None).await);
        let begun = futures::future::join_all((0..3).map(|_| Writer::begin(&repository))).await;
        let begun = begun.iter().filter(|begun| begun.is_ok()).count();
        assert!(begun <= 1);
        winners += begun;
    }
    assert!(winners > 20, "waits of their own let one of them come: {winners}");
}

#[tokio::test]
async fn whoever_gave_no_sign_for_long_is_taken_over_and_lists_nothing() {
    let (dir, repository) = in_directory(None).await;
    let mut stalled = Writer::begin(&repository).await.expect("begun");
    put(&mut stalled, b"old").await.expect("given");
    age_lock(&dir, Duration::from_secs(299));
    assert!(matches!(Writer::begin(&repository).await, Err(Error::Busy { .. })));
    age_lock(&dir, Duration::from_secs(301));
    let mut second = Writer::begin(&repository).await.expect("taken over");
    put(&mut second, b"new").await.expect("given");
    second.finish(cut(AT_MS + 1000), &groups(&[(1, &[b"new"])])).await.expect("backed up");
    let error = stalled.finish(cut(AT_MS), &groups(&[(1, &[b"old"])])).await.expect_err("lost");
    assert!(told(&error).contains("nothing of this is listed; do it again"), "{error}");
    assert_eq!(names(&repository).await, ["2026-11-27T09-15-01Z"]);
}

/// Between the last look at the lock and the listing, which no store makes one.
#[tokio::test]
async fn a_backup_that_lost_its_lock_while_it_was_listed_is_taken_back() {
    let store = Arc::new(Scripted::default());
    let repository = repository_in(store.clone(), None).await;
    store.deletes_locks_on_listing.store(true, Ordering::Relaxed);
    let error = back_up(&repository, AT_MS, &[(1, &[b"a"])]).await.expect_err("lost");
    assert!(matches!(error, Error::LockLost { .. }), "{error}");
    assert!(names(&repository).await.is_empty());
    store.deletes_locks_on_listing.store(false, Ordering::Relaxed);
    back_up(&repository, AT_MS, &[(1, &[b"a"])]).await.expect("backed up");
}

fn quick(repository: Repository) -> Repository {
    let times = Times { refresh: Duration::from_millis(20), stale: Duration::from_millis(600) };
    Repository { times, ..repository }
}

#[tokio::test]
async fn a_lock_that_is_held_is_refreshed() {
    let (dir, repository) = in_directory(None).await;
    let repository = quick(repository);
    let writer = Writer::begin(&repository).await.expect("begun");
    age_lock(&dir, Duration::from_secs(60));
    let old = SystemTime::now() - Duration::from_secs(30);
    let is_refreshed =
        || locks(&dir)[0].metadata().and_then(|found| found.modified()).is_ok_and(|at| at > old);
    tokio::time::timeout(Duration::from_secs(20), async {
        while !is_refreshed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("refreshed");
    assert!(matches!(Writer::begin(&repository).await, Err(Error::Busy { .. })));
    writer.finish(cut(AT_MS), &[]).await.expect("backed up");
}

/// Its own clock tells whoever cannot reach the store, before others may come.
#[tokio::test]
async fn whoever_cannot_refresh_stops_before_others_may_come() {
    let store = Arc::new(Scripted::default());
    let repository = quick(repository_in(store.clone(), None).await);
    let writer = Writer::begin(&repository).await.expect("begun");
    store.fail_puts_of("locks/");
    tokio::time::sleep(repository.times.stale / 2).await;
    let error = writer.finish(cut(AT_MS), &[]).await.expect_err("lost");
    assert!(matches!(error, Error::LockLost { .. }), "{error}");
    assert!(names(&repository).await.is_empty());
}

#[tokio::test]
async fn a_writer_that_is_dropped_or_ended_lets_others_come() {
    let (dir, repository) = in_directory(None).await;
    Writer::begin(&repository).await.expect("begun").abandon().await;
    assert!(locks(&dir).is_empty());
    drop(Writer::begin(&repository).await.expect("begun"));
    tokio::time::timeout(Duration::from_secs(20), async {
        while !locks(&dir).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("released");
}
