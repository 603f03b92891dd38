//! Backups that were broken off, and what the next one makes of it.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::scripted::Scripted;
use super::{
    AT_MS, back_up, cut, groups, in_memory, key, names, put, read_newest, repository_in, told,
};
use crate::chunk::ChunkId;
use crate::error::Error;
use crate::writer::Writer;

#[tokio::test]
async fn a_backup_that_is_broken_off_leaves_the_list_and_the_next_goes_on_from_it() {
    for key in [None, Some(key())] {
        let repository = in_memory(key.as_ref()).await;
        back_up(&repository, AT_MS, &[(1, &[b"a"])]).await.expect("backed up");
        let mut writer = Writer::begin(&repository).await.expect("begun");
        for number in 0..20_u8 {
            put(&mut writer, &[number]).await.expect("given");
        }
        writer.abandon().await;
        assert_eq!(names(&repository).await, ["2026-11-27T09-15-00Z"]);
        let writer = Writer::begin(&repository).await.expect("begun");
        let found =
            (0..20_u8).filter(|number| writer.known().contains(&ChunkId::of(&[*number]))).count();
        assert!(found >= 12, "all but those under way: {found}");
        writer.abandon().await;
        // What a prune deleted is known no more.
        let keep = crate::Retention { keep_last: 1, ..Default::default() };
        let pruned = repository.prune(&keep, false, pending()).await.expect("pruned");
        assert!(pruned.chunks >= 12, "{pruned:?}");
        let writer = Writer::begin(&repository).await.expect("begun");
        assert_eq!(writer.known().len(), 1);
        writer.abandon().await;
        back_up(&repository, AT_MS + 1000, &[(1, &[b"a", b"b"])]).await.expect("backed up");
        assert_eq!(read_newest(&repository).await.expect("read").len(), 2);
    }
}

/// A list of stored chunks may be written late by whoever had stood still: it is looked whether they are there.
#[tokio::test]
async fn chunks_that_are_listed_and_not_there_are_not_known() {
    let repository = in_memory(None).await;
    let ids = [ChunkId::of(b"gone"), ChunkId::of(b"there")];
    crate::unfinished::write(&repository, &ids).await.expect("written");
    let object = repository.chunk_object(&ids[1]);
    let packed =
        repository.envelopes.pack(crate::envelope::Kind::Chunk, &object, b"there").expect("packed");
    repository.store.put(&object, packed).await.expect("written");
    let writer = Writer::begin(&repository).await.expect("begun");
    assert_eq!(writer.known(), &[ids[1]].into());
    let error =
        writer.finish(cut(AT_MS), &groups(&[(3, &[b"gone"])])).await.expect_err("not stored");
    assert!(told(&error).contains("of group 3 was neither given nor known"), "{error}");
    assert!(names(&repository).await.is_empty());
}

#[tokio::test]
async fn bytes_of_another_id_break_a_backup_off() {
    let repository = in_memory(None).await;
    let mut writer = Writer::begin(&repository).await.expect("begun");
    writer.put(ChunkId::of(b"a"), Bytes::from_static(b"b")).await.expect("on its way");
    let error = writer.finish(cut(AT_MS), &groups(&[(1, &[b"a"])])).await.expect_err("changed");
    assert!(matches!(error, Error::ChunkId { .. }), "{error}");
    assert!(names(&repository).await.is_empty());
}

#[tokio::test]
async fn a_store_that_fails_breaks_a_backup_off_and_the_next_is_whole() {
    let store = Arc::new(Scripted::default());
    let repository = repository_in(store.clone(), None).await;
    for part in ["chunks/", "contents/", "backups/"] {
        store.fail_puts_of(part);
        let error = back_up(&repository, AT_MS, &[(1, &[b"a", b"b"])]).await.expect_err("failed");
        assert!(told(&error).contains(&format!("cannot write {part}")), "{error}");
        assert!(told(&error).contains("a broken line"), "{error}");
        store.mend();
        assert!(names(&repository).await.is_empty());
        // It was dropped, and its lock is deleted beside.
        tokio::task::yield_now().await;
    }
    back_up(&repository, AT_MS, &[(1, &[b"a", b"b"])]).await.expect("backed up");
    assert_eq!(read_newest(&repository).await.expect("read").len(), 2);
}

#[tokio::test]
async fn a_bounded_number_of_chunks_is_under_way() {
    let store = Arc::new(Scripted::default());
    let repository = repository_in(store.clone(), None).await;
    let mut writer = Writer::begin(&repository).await.expect("begun");
    let texts: Vec<Vec<u8>> = (0..200_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    for text in &texts {
        put(&mut writer, text).await.expect("given");
    }
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let summary = writer.finish(cut(AT_MS), &groups(&[(1, &texts)])).await.expect("backed up");
    assert_eq!(summary.stored.chunks, 200);
    let most = store.under_way_most.load(Ordering::Relaxed);
    assert!((2..=9).contains(&most), "several, and no more than are allowed: {most}");
}
