//! Lists objects page by page, and restarts when the server has dropped the rest or is too busy.

use std::time::Duration;

use kube::Api;
use kube::api::ListParams;

use crate::client::backoff;
use crate::client::deadline::{self, CallError};
use crate::objects::Received;

/// Objects per page.
const PAGE: u32 = 500;
/// The timeout for one page: many objects, over a slow connection.
const LIST: Duration = Duration::from_secs(60);
/// How many times a list is started if it takes longer than the API server keeps it, or if the server is too busy.
const STARTS: u32 = 3;
/// The first and the longest delay before a busy server is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

/// An event while a list is read.
#[derive(Debug)]
pub enum Step {
    /// The list starts, or starts again: earlier pages no longer count.
    Begin,
    /// The next page is requested.
    Ask,
    /// One page has arrived.
    Page(Vec<Received>),
}

/// Reads a whole list, and reports its events in order.
pub async fn list(
    api: &Api<Received>,
    selected: &ListParams,
    report: &mut (dyn FnMut(Step) + Send),
) -> Result<(), CallError> {
    let mut starts = 1;
    loop {
        match pages(api, selected, report).await {
            Err(error) if starts < STARTS && (error.is_gone() || error.is_busy()) => {
                if error.is_busy() {
                    tokio::time::sleep(backoff::pause(starts, PAUSES.0, PAUSES.1)).await;
                }
                starts += 1;
            }
            ended => return ended,
        }
    }
}

async fn pages(
    api: &Api<Received>,
    selected: &ListParams,
    report: &mut (dyn FnMut(Step) + Send),
) -> Result<(), CallError> {
    let mut page = selected.clone().limit(PAGE);
    report(Step::Begin);
    loop {
        report(Step::Ask);
        let list =
            deadline::call_within(deadline::limit(LIST), "list objects", api.list(&page)).await?;
        report(Step::Page(list.items));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}
