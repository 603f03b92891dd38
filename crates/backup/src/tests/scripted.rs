//! A store in memory that does otherwise where a test wants it.

use std::fmt::{self, Debug, Display};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What is done before an object is written, with the store and the object's name.
pub type BeforePut = Box<dyn Fn(&str) -> Option<object_store::Error> + Send + Sync>;

#[derive(Default)]
pub struct Scripted {
    pub inner: InMemory,
    /// Conditions of writes are ignored, as some stores do.
    pub ignores_conditions: AtomicBool,
    pub before_put: Mutex<Option<BeforePut>>,
    /// Objects that are deleted once a backup is listed.
    pub deletes_locks_on_listing: AtomicBool,
    under_way: AtomicUsize,
    pub under_way_most: AtomicUsize,
}

impl Scripted {
    pub fn fail_puts_of(&self, part: &'static str) {
        let fail = move |name: &str| {
            let error = || object_store::Error::Generic {
                store: "Scripted",
                source: "a\nbroken\nline".into(),
            };
            name.contains(part).then(error)
        };
        *self.before_put.lock().expect("whole") = Some(Box::new(fail));
    }

    pub fn mend(&self) {
        *self.before_put.lock().expect("whole") = None;
    }

    async fn delete_locks(&self) -> Result<()> {
        let found = self.inner.list_with_delimiter(Some(&Path::from("locks"))).await?;
        for object in found.objects {
            self.inner.delete(&object.location).await?;
        }
        Ok(())
    }
}

impl Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl ObjectStore for Scripted {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        let hook = self
            .before_put
            .lock()
            .expect("whole")
            .as_ref()
            .and_then(|hook| hook(location.as_ref()));
        if let Some(error) = hook {
            return Err(error);
        }
        if self.ignores_conditions.load(Ordering::Relaxed) {
            opts.mode = PutMode::Overwrite;
        }
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.under_way_most.fetch_max(under_way, Ordering::Relaxed);
        // Others come to be under way too.
        tokio::task::yield_now().await;
        let put = self.inner.put_opts(location, payload, opts).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        if self.deletes_locks_on_listing.load(Ordering::Relaxed)
            && location.as_ref().starts_with("backups/")
        {
            self.delete_locks().await?;
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
