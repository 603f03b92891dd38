//! Whatever lies in the place of an object: it is told, and nothing wrong is given.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{AT_MS, Texts, back_up, in_directory, in_memory, key, location, plain, read, told};
use crate::envelope::{Envelopes, Kind};
use crate::error::Error;
use crate::key::{Key, Keys};
use crate::repository::Repository;
use crate::verification::Fault;

const TEXTS: Texts<'static> =
    &[(1, &[b"one, one, one, one, one, one", b"two"]), (2, &[b"two", b"three"])];

fn objects(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("one").path();
            if path.is_dir() { &mut dirs } else { &mut found }.push(path);
        }
    }
    found.sort();
    found
}

/// All that there is, from the first object on.
async fn everything(
    dir: &tempfile::TempDir,
    key: Option<&Key>,
) -> Result<Vec<(u16, Vec<u8>)>, Error> {
    let repository = Repository::open(&location(dir), key).await?;
    let mut found = Vec::new();
    for name in repository.names().await? {
        found.extend(read(&repository, &repository.manifest(Some(&name)).await?).await?);
    }
    Ok(found)
}

async fn two_backups(key: Option<&Key>) -> (tempfile::TempDir, Vec<(u16, Vec<u8>)>) {
    let (dir, repository) = in_directory(key).await;
    back_up(&repository, AT_MS, TEXTS).await.expect("backed up");
    back_up(&repository, AT_MS + 1000, &[(1, &[b"four"])]).await.expect("backed up");
    let all = everything(&dir, key).await.expect("read");
    assert_eq!(all[1..], plain(TEXTS));
    (dir, all)
}

#[tokio::test]
async fn a_changed_or_shortened_object_is_told() {
    for key in [None, Some(key())] {
        let (dir, all) = two_backups(key.as_ref()).await;
        let objects = objects(dir.path());
        assert_eq!(objects.len(), 1 + 4 + 2 + 2, "{objects:?}");
        for path in objects {
            let whole = fs::read(&path).expect("read");
            let is_head = path.ends_with("mayfly-backup.json");
            let changes = (0..whole.len()).step_by(if whole.len() > 200 { 3 } else { 1 });
            let mut wrong: Vec<Vec<u8>> = changes
                .map(|at| {
                    let mut changed = whole.clone();
                    changed[at] ^= 1 << (at % 8);
                    changed
                })
                .collect();
            wrong.extend((0..whole.len()).step_by(7).map(|length| whole[..length].to_vec()));
            wrong.push([&whole[..], b" more"].concat());
            for changed in wrong {
                fs::write(&path, &changed).expect("written");
                match everything(&dir, key.as_ref()).await {
                    Err(error) => drop(told(&error)),
                    // Its spaces and line ends.
                    Ok(found) => {
                        assert!(is_head && found == all, "{}: {changed:?}", path.display())
                    }
                }
            }
            fs::write(&path, whole).expect("written");
        }
        assert_eq!(everything(&dir, key.as_ref()).await.expect("mended"), all);
    }
}

/// Also in a repository without a key: there against mishaps, here against whoever can write.
#[tokio::test]
async fn an_object_in_the_place_of_another_is_told() {
    for key in [None, Some(key())] {
        let (dir, _) = two_backups(key.as_ref()).await;
        let (other, _) = two_backups(key.as_ref()).await;
        let (ours, theirs) = (objects(dir.path()), objects(other.path()));
        let is_head = |path: &&PathBuf| !path.ends_with("mayfly-backup.json");
        for path in ours.iter().filter(is_head) {
            let whole = fs::read(path).expect("read");
            for instead in
                ours.iter().chain(&theirs).filter(is_head).filter(|instead| *instead != path)
            {
                fs::copy(instead, path).expect("copied");
                let error = everything(&dir, key.as_ref()).await.expect_err("told");
                assert!(matches!(error, Error::Damaged { .. }), "{error}");
            }
            fs::write(path, whole).expect("written");
        }
    }
}

/// Who has the key can seal anything under any name, and so can anybody where there is none. What a name or a summary
/// says of the content holds all the same.
#[tokio::test]
async fn content_that_was_sealed_for_another_is_told() {
    for key in [None, Some(key())] {
        let repository = in_memory(key.as_ref()).await;
        let summary = back_up(&repository, AT_MS, TEXTS).await.expect("backed up");
        let manifest = repository.manifest(None).await.expect("there");
        let chunk = repository.chunk_object(&crate::ChunkId::of(b"two"));
        let contents = crate::repository::contents_object(&summary.name);
        let others = serde_json::to_vec(&super::groups(&TEXTS[..1])).expect("JSON");
        for (kind, object, plain) in
            [(Kind::Chunk, &chunk, b"owt".to_vec()), (Kind::Contents, &contents, others)]
        {
            let sealed = repository.envelopes.pack(kind, object, &plain).expect("packed");
            repository.store.put(object, sealed).await.expect("written");
        }
        let error = read(&repository, &manifest).await.expect_err("told");
        assert!(told(&error).contains("its bytes are not those of its name"), "{error}");
        let error = repository.manifest(None).await.expect_err("told");
        assert!(told(&error).contains("it is not the list of this backup's chunks"), "{error}");
    }
}

#[tokio::test]
async fn verify_names_what_is_wrong_and_the_groups_it_belongs_to() {
    let (dir, repository) = in_directory(None).await;
    back_up(&repository, AT_MS, TEXTS).await.expect("backed up");
    let manifest = repository.manifest(None).await.expect("there");
    let object = |text: &[u8]| repository.chunk_object(&crate::ChunkId::of(text));
    fs::remove_file(dir.path().join(object(b"two"))).expect("removed");
    fs::write(dir.path().join(object(b"three")), b"MFBK").expect("written");
    let (mut bytes, mut chunks) = (0, 0);
    let count = |more| {
        bytes += more;
        chunks += 1;
    };
    let faulty = repository.verify(&manifest, count).await.expect("read");
    assert_eq!((bytes, chunks), (28 + 3 + 5, 3), "each once");
    let mut found: Vec<_> =
        faulty.iter().map(|faulty| (&faulty.object, &faulty.groups, &faulty.fault)).collect();
    found.sort_by_key(|found| found.1.len());
    assert_eq!(found[0], (&object(b"three"), &[2].into(), &Fault::Damaged("it is cut off".into())));
    assert_eq!(found[1], (&object(b"two"), &[1, 2].into(), &Fault::Missing));
    // The next backup stores them again, which mends this one.
    let next = back_up(&repository, AT_MS + 1000, TEXTS).await.expect("backed up");
    assert_eq!(next.stored.chunks, 0, "nobody has said so yet");
    repository.distrust(&faulty).await.expect("written");
    let next = back_up(&repository, AT_MS + 2000, &TEXTS[..1]).await.expect("backed up");
    assert_eq!(next.stored.chunks, 1, "what of them it has");
    let next = back_up(&repository, AT_MS + 3000, TEXTS).await.expect("backed up");
    assert_eq!(next.stored.chunks, 2, "until all of them were");
    let next = back_up(&repository, AT_MS + 4000, TEXTS).await.expect("backed up");
    assert_eq!(next.stored.chunks, 0, "and no longer");
    assert_eq!(repository.verify(&manifest, |_| ()).await.expect("read"), []);
}

proptest! {
    /// Any bytes, and any bytes after a head that is right.
    #[test]
    fn any_object_is_an_error_or_what_was_packed(
        bytes in vec(any::<u8>(), 0..400),
        codec in 0_u8..3,
        length in prop_oneof![0_u32..2000, any::<u32>()],
        sealed: bool,
    ) {
        let keys = sealed.then(|| Keys::derive(&key(), &[3; 32]));
        let envelopes = Envelopes { repository: "r".into(), keys };
        let head = [b"MFBK".as_slice(), &[1, 1, codec, sealed.into()], &length.to_be_bytes()].concat();
        for object in [bytes.clone(), [&head[..], &bytes].concat()] {
            assert!(envelopes.unpack(Kind::Chunk, "chunks/00/00", &object, 1 << 20).is_err());
        }
        let packed = envelopes.pack(Kind::Chunk, "chunks/00/00", &bytes).expect("packed");
        assert_eq!(envelopes.unpack(Kind::Chunk, "chunks/00/00", &packed, 400), Ok(bytes.clone()));
        assert!(envelopes.unpack(Kind::Summary, "chunks/00/00", &packed, 400).is_err());
        assert!(envelopes.unpack(Kind::Chunk, "chunks/00/01", &packed, 400).is_err());
        assert!(bytes.is_empty() || envelopes.unpack(Kind::Chunk, "chunks/00/00", &packed, bytes.len() - 1).is_err());
        let of_another = Envelopes { repository: "s".into(), ..envelopes };
        assert!(of_another.unpack(Kind::Chunk, "chunks/00/00", &packed, 400).is_err());
    }

    /// A payload under a right checksum is as untrue as whoever made it: it claims any length, and unpacks to any.
    #[test]
    fn any_payload_unpacks_to_its_length_or_an_error(
        payload in vec(any::<u8>(), 0..300),
        codec in 0_u8..3,
        length in prop_oneof![0_u32..2000, any::<u32>()],
    ) {
        let envelopes = Envelopes { repository: "r".into(), keys: None };
        let head = [b"MFBK".as_slice(), &[1, 1, codec, 0], &length.to_be_bytes()].concat();
        let said = [&head[..], &payload].concat();
        let hash = ring::digest::digest(&ring::digest::SHA256, &[b"r\0n\0", &said[..]].concat());
        let object = [&said[..], hash.as_ref()].concat();
        if let Ok(plain) = envelopes.unpack(Kind::Chunk, "n", &object, 1500) {
            assert_eq!(plain.len(), length as usize);
        }
        if codec == 0 && payload.len() <= 1500 {
            let right = length as usize == payload.len();
            assert_eq!(envelopes.unpack(Kind::Chunk, "n", &object, 1500).is_ok(), right);
        }
    }
}
