//! A store that counts requests and bytes, and may be far away.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// Counts what passes.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn ObjectStore>,
    delay: Duration,
    requests: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Counting {
    /// Counts requests of a store that answers after a delay.
    pub fn new(inner: Arc<dyn ObjectStore>, delay: Duration) -> Arc<Self> {
        Arc::new(Self {
            inner,
            delay,
            requests: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Requests, bytes read and bytes written since the last call.
    pub fn take(&self) -> [u64; 3] {
        [&self.requests, &self.read, &self.written].map(|count| count.swap(0, Ordering::SeqCst))
    }

    async fn asked(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

impl std::fmt::Display for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "counting {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.asked().await;
        self.written.fetch_add(payload.content_length() as u64, Ordering::SeqCst);
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.asked().await;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.asked().await;
        let found = self.inner.get_opts(path, options).await?;
        self.read.fetch_add(found.range.end - found.range.start, Ordering::SeqCst);
        Ok(found)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.asked().await;
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let (delay, listed) = (self.delay, self.inner.list(prefix));
        futures_util::stream::once(async move {
            tokio::time::sleep(delay).await;
            listed
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.asked().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.asked().await;
        self.inner.copy_opts(from, to, options).await
    }
}
