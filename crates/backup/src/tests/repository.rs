//! What is backed up is read again, and who has no key reads nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use object_store::memory::InMemory;
use proptest::collection::vec;
use proptest::prelude::*;

use super::scripted::Scripted;
use super::{
    AT_MS, back_up, in_directory, in_memory, key, location, names, plain, read_newest, told,
};
use crate::chunk::CHUNK_BYTES_MAX;
use crate::error::Error;
use crate::key::Key;
use crate::repository::Repository;
use crate::store::Store;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Of any chunks, of any groups, with a key and without, after any backup before.
    #[test]
    fn what_is_backed_up_is_read_again(
        rounds in vec(vec((any::<u16>(), vec(vec(0_u8..4, 0..200), 0..6)), 0..5), 1..4),
        encrypted: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
        runtime.block_on(async {
            let repository = in_memory(encrypted.then(key).as_ref()).await;
            for (round, at_ms) in rounds.iter().zip((AT_MS..).step_by(60_000)) {
                let texts: Vec<(u16, Vec<&[u8]>)> =
                    round.iter().map(|(id, texts)| (*id, texts.iter().map(Vec::as_slice).collect())).collect();
                let texts: Vec<(u16, &[&[u8]])> = texts.iter().map(|(id, texts)| (*id, &texts[..])).collect();
                let summary = back_up(&repository, at_ms, &texts).await.expect("backed up");
                assert_eq!(read_newest(&repository).await.expect("read"), plain(&texts));
                let manifest = repository.manifest(Some(&summary.name)).await.expect("there");
                assert_eq!(manifest.summary, summary);
                assert_eq!(repository.verify(&manifest, |_| ()).await.expect("read"), []);
            }
            assert_eq!(names(&repository).await.len(), rounds.len());
        });
    }
}

#[tokio::test]
async fn what_has_not_changed_is_stored_once() {
    let repository = in_memory(None).await;
    let (a, b): (&[u8], &[u8]) = (&[7; 100_000], b"b");
    let first = back_up(&repository, AT_MS, &[(1, &[a, b, a])]).await.expect("backed up");
    assert_eq!((first.stored.chunks, first.chunks), (2, 3));
    assert!(first.stored.bytes < 2_000, "it is compressed: {}", first.stored.bytes);
    let second = back_up(&repository, AT_MS + 60_000, &[(1, &[a, b]), (2, &[b"c"])]).await;
    let second = second.expect("backed up");
    assert_eq!((second.stored.chunks, second.chunks, second.groups), (1, 3, 2));
    assert_eq!(names(&repository).await, ["2026-11-27T09-16-00Z", "2026-11-27T09-15-00Z"]);
}

#[tokio::test]
async fn cuts_of_one_second_have_names_of_their_own() {
    let repository = in_memory(None).await;
    for number in 0..3 {
        back_up(&repository, AT_MS + number, &[]).await.expect("backed up");
    }
    let newest_first = ["2026-11-27T09-15-00Z-3", "2026-11-27T09-15-00Z-2", "2026-11-27T09-15-00Z"];
    assert_eq!(names(&repository).await, newest_first);
}

#[tokio::test]
async fn a_directory_is_made_for_its_owner_and_holds_nothing_plain_with_a_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let place = format!("{}/a/b", dir.path().display()).parse().expect("a place");
    assert!(matches!(Repository::open(&place, None).await, Err(Error::NoRepository { .. })));
    let repository = Repository::create(&place, Some(&key())).await.expect("made");
    let text: &[u8] = b"a secret that LZ4 leaves as it is";
    back_up(&repository, AT_MS, &[(1, &[text])]).await.expect("backed up");
    let made = dir.path().join("a/b");
    assert_eq!(made.metadata().expect("there").permissions().mode() & 0o777, 0o700);
    let (mut files, mut dirs) = (0, vec![made]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("read") {
            let path = entry.expect("one").path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).expect("read");
            assert!(!bytes.windows(8).any(|part| part == b"a secret"), "{}", path.display());
            let id = crate::ChunkId::of(text).to_string();
            assert!(!path.to_str().expect("text").contains(&id[..16]), "names tell nothing");
        }
    }
    assert_eq!(files, 4, "the head, a chunk, its list, and the backup; no lock");
}

#[tokio::test]
async fn a_key_fits_or_is_told_not_to() {
    let (plain_dir, _) = in_directory(None).await;
    let (sealed_dir, sealed) = in_directory(Some(&key())).await;
    assert!(sealed.is_encrypted());
    let other = Key::draw().expect("a key");
    for (dir, key, part) in [
        (&plain_dir, Some(&key()), "is not encrypted, and stays so"),
        (&sealed_dir, None, "name the file of its key with --key-file"),
        (&sealed_dir, Some(&other), "is encrypted with another key"),
    ] {
        for result in [
            Repository::open(&location(dir), key).await,
            Repository::create(&location(dir), key).await,
        ] {
            let Err(error) = result else { panic!("{part}") };
            assert!(told(&error).contains(part), "{error}");
        }
    }
    Repository::open(&location(&sealed_dir), Some(&key())).await.expect("opened");
}

#[tokio::test]
async fn a_newer_format_is_told() {
    let (dir, repository) = in_directory(None).await;
    let summary = back_up(&repository, AT_MS, &[]).await.expect("backed up");
    let newer = crate::Summary { format: 2, ..summary };
    let object = crate::repository::summary_object(&newer.name);
    let text = serde_json::to_vec(&newer).expect("JSON");
    let packed =
        repository.envelopes.pack(crate::envelope::Kind::Summary, &object, &text).expect("packed");
    repository.store.put(&object, packed).await.expect("written");
    let listing = repository.list().await.expect("listed");
    assert!(
        told(&listing.damaged[0].error)
            .contains("is of format 2, and this version of Mayfly knows up to 1")
    );
    let head = dir.path().join("mayfly-backup.json");
    std::fs::write(&head, r#"{"format": 2, "else": 1}"#).expect("written");
    let Err(error) = Repository::open(&location(&dir), None).await else { panic!("opened") };
    assert!(told(&error).contains("mayfly-backup.json is of format 2"), "{error}");
}

#[tokio::test]
async fn a_store_without_conditional_writes_is_told() {
    let store = Arc::new(Scripted::default());
    store.ignores_conditions.store(true, Ordering::Relaxed);
    let Err(error) = Repository::create_in(Store::of(store), None).await else { panic!("made") };
    assert!(told(&error).contains("use one that knows conditional writes"), "{error}");
}

#[tokio::test]
async fn two_that_make_a_repository_make_one() {
    let inner = Arc::new(InMemory::new());
    let make = || Repository::create_in(Store::of(inner.clone()), None);
    let (a, b) = tokio::join!(make(), make());
    assert_eq!(a.expect("made").envelopes.repository, b.expect("made").envelopes.repository);
}

#[tokio::test]
async fn the_longest_chunk_is_stored_and_a_longer_one_is_not() {
    let repository = in_memory(None).await;
    let mut bytes = vec![0; CHUNK_BYTES_MAX];
    back_up(&repository, AT_MS, &[(1, &[&bytes])]).await.expect("backed up");
    assert_eq!(read_newest(&repository).await.expect("read")[0].1, bytes);
    bytes.push(0);
    let error = back_up(&repository, AT_MS, &[(1, &[&bytes])]).await.expect_err("too long");
    assert!(told(&error).contains("16777217 bytes"), "{error}");
}
