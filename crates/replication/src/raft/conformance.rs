//! openraft's own suite over both adapters: what it expects of a log and a state machine.

use std::sync::Arc;

use domain::{Effect, GroupId};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use store::{LogStore, RowStore};
use tempfile::TempDir;

use super::TypeConfig;
use super::log::LogAdapter;
use super::state::{Replica, StateAdapter};
use crate::{Leadership, Observer};

struct Deaf;

impl Observer for Deaf {
    fn applied(&self, _group: GroupId, _effects: Vec<Effect>) {}

    fn leadership(&self, _group: GroupId, _leadership: Leadership) {}
}

struct Stores;

impl StoreBuilder<TypeConfig, LogAdapter, StateAdapter, TempDir> for Stores {
    async fn build(&self) -> Result<(TempDir, LogAdapter, StateAdapter), StorageError<TypeConfig>> {
        let group = GroupId(3);
        let dir = tempfile::tempdir().expect("a directory");
        let log = LogStore::open(&dir.path().join("log"), &Default::default()).expect("a log");
        let rows = RowStore::open(&dir.path().join("rows"), &Default::default()).expect("rows");
        let replica = Replica::open(group, rows, Arc::new(Deaf)).expect("a replica");
        replica.set_running();
        Ok((dir, LogAdapter::new(group, log), StateAdapter::with(Arc::new(replica), false)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapters_pass_openrafts_suite() {
    Suite::test_all(Stores).await.expect("the suite passes");
}
