//! A place for objects, as a repository needs one. The only module that speaks with `object_store`, but for where a
//! [`Location`] is written.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutMode, RetryConfig,
};

use crate::error::{Error, one_line};
use crate::location::{Location, Place};

/// How long one request may take, its body included: a chunk over a line of 1 Mbit/s takes two minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// A request that failed for a reason that may pass is made again so often, within this time.
const RETRIES_MAX: usize = 5;
const RETRY_TIME: Duration = Duration::from_secs(60);

pub(crate) struct Store {
    inner: Arc<dyn ObjectStore>,
    prefix: Path,
    /// As the place was given.
    at: String,
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Within the repository.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// When it was written, by the store's clock.
    pub(crate) at: SystemTime,
}

impl Store {
    /// `make`: a directory that is not there is made, for its owner alone.
    pub(crate) fn open(location: &Location, make: bool) -> Result<Store, Error> {
        let at = location.to_string();
        let cannot = |object: &str, why: String| Error::Store {
            at: at.clone(),
            doing: "open",
            object: object.to_owned(),
            why,
        };
        let (inner, prefix): (Arc<dyn ObjectStore>, Path) = match &location.place {
            Place::Directory(dir) => {
                if make {
                    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
                    made.map_err(|error| cannot("the directory", error.to_string()))?;
                }
                if !dir.exists() {
                    return Err(Error::NoRepository { at });
                }
                let store = LocalFileSystem::new_with_prefix(dir);
                let store = store.map_err(|error| cannot("the directory", one_line(&error)))?;
                // A backup that is listed is on the disk.
                (Arc::new(store.with_fsync(true)), Path::default())
            }
            Place::Bucket { bucket, prefix } => {
                // The provider that this workspace has; of no matter if it is there already.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let retries = RetryConfig {
                    backoff: BackoffConfig::default(),
                    max_retries: RETRIES_MAX,
                    retry_timeout: RETRY_TIME,
                };
                // First, so that AWS_ALLOW_HTTP and the like are added to it.
                let options = ClientOptions::new().with_timeout(REQUEST_TIMEOUT);
                let builder = environment(AmazonS3Builder::new().with_client_options(options));
                let store = builder.with_bucket_name(bucket).with_retry(retries).build();
                (
                    Arc::new(store.map_err(|error| cannot("the bucket", one_line(&error)))?),
                    prefix.clone(),
                )
            }
        };
        Ok(Store { inner, prefix, at })
    }

    #[cfg(test)]
    pub(crate) fn of(inner: Arc<dyn ObjectStore>) -> Store {
        Store { inner, prefix: Path::default(), at: "memory".into() }
    }

    pub(crate) fn at(&self) -> String {
        self.at.clone()
    }

    /// The bytes of an object; `None`: it is not there.
    pub(crate) async fn find(&self, name: &str, bytes_max: usize) -> Result<Option<Bytes>, Error> {
        let read = async {
            let found = self.inner.get(&self.path(name)).await?;
            match found.meta.size {
                bytes if bytes > bytes_max as u64 => Ok(Err(bytes)),
                _ => found.bytes().await.map(Ok),
            }
        };
        match read.await {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(bytes)) => Err(self.damaged(name, format!("it has {bytes} bytes"))),
            Err(object_store::Error::NotFound { source, .. })
                if !is_no_bucket(&source.to_string()) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed("read", name, &error)),
        }
    }

    /// # Errors
    /// Also where the object is not there.
    pub(crate) async fn get(&self, name: &str, bytes_max: usize) -> Result<Bytes, Error> {
        let found = self.find(name, bytes_max).await?;
        found.ok_or_else(|| Error::Missing { at: self.at(), object: name.to_owned() })
    }

    /// Writes an object whole, in the place of one that is there.
    pub(crate) async fn put(&self, name: &str, object: impl Into<Bytes>) -> Result<(), Error> {
        let put = self.inner.put(&self.path(name), object.into().into()).await;
        put.map(drop).map_err(|error| self.failed("write", name, &error))
    }

    /// Writes an object unless one is there; whether it did.
    pub(crate) async fn create(&self, name: &str, object: impl Into<Bytes>) -> Result<bool, Error> {
        let path = self.path(name);
        let put = self.inner.put_opts(&path, object.into().into(), PutMode::Create.into()).await;
        match put {
            Ok(_) => Ok(true),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(false),
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => Err(Error::Unconditional { at: self.at() }),
            Err(error) => Err(self.failed("write", name, &error)),
        }
    }

    pub(crate) async fn is_there(&self, name: &str) -> Result<bool, Error> {
        match self.inner.head(&self.path(name)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("look for", name, &error)),
        }
    }

    /// What is below a folder, in no order.
    pub(crate) fn list(&self, folder: &'static str) -> BoxStream<'_, Result<Listed, Error>> {
        let (path, skipped) = (self.path(folder), self.path("").as_ref().len());
        let listed = self.inner.list(Some(&path)).map(move |found| {
            let found = found.map_err(|error| self.failed("list", folder, &error))?;
            let name = found.location.as_ref().get(skipped..).unwrap_or_default();
            Ok(Listed {
                name: name.trim_start_matches('/').to_owned(),
                bytes: found.size,
                at: found.last_modified.into(),
            })
        });
        listed.boxed()
    }

    /// Deletes these; that one is not there is no error.
    pub(crate) async fn delete(&self, names: Vec<String>) -> Result<(), Error> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let deleted = self.inner.delete_stream(futures::stream::iter(paths).boxed());
        let deleted = deleted.map(|result| match result {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", "an object", &error)),
        });
        deleted.try_collect().await
    }

    pub(crate) fn damaged(&self, object: &str, why: impl Into<String>) -> Error {
        Error::Damaged { at: self.at(), object: object.to_owned(), why: why.into() }
    }

    fn path(&self, name: &str) -> Path {
        match (self.prefix.as_ref(), name) {
            ("", name) => Path::from(name),
            (prefix, "") => Path::from(prefix),
            (prefix, name) => Path::from(format!("{prefix}/{name}")),
        }
    }

    fn failed(&self, doing: &'static str, object: &str, error: &object_store::Error) -> Error {
        let told = one_line(error);
        let hint = match error {
            object_store::Error::Unauthenticated { .. }
            | object_store::Error::PermissionDenied { .. } => {
                "; who runs this is not allowed to: look at the rights there, for S3 at AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_REGION"
            }
            _ if told.contains("169.254.169.254") => {
                "; no credentials were given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role"
            }
            _ if is_no_bucket(&told) => {
                "; there is no such bucket: make it, or look at its name and AWS_REGION"
            }
            _ if told.contains("https_only") || told.contains("URL scheme is not allowed") => {
                "; an http:// endpoint takes AWS_ALLOW_HTTP=true"
            }
            _ => "",
        };
        Error::Store { at: self.at(), doing, object: object.to_owned(), why: told + hint }
    }
}

/// What the environment says of S3, by the names of Amazon's own tools.
fn environment(builder: AmazonS3Builder) -> AmazonS3Builder {
    let variables = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
    variables.fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
        Ok(key) => builder.with_config(key, value),
        // One of other tools.
        Err(_) => builder,
    })
}

fn is_no_bucket(told: &str) -> bool {
    told.contains("NoSuchBucket")
}
