//! Small values that many calls have: tags, filters, times.

use crate::selector::Filter;
use crate::tags::Tags;
use aws_sdk_ec2::types;
use aws_smithy_types::DateTime;
use jiff::Timestamp;

/// A time of the SDK; `None` for one that no clock shows.
pub(super) fn time(time: Option<&DateTime>) -> Option<Timestamp> {
    let time = time?;
    let nanos = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanos).ok()
}

/// A time for the SDK.
pub(super) fn sdk_time(time: Timestamp) -> DateTime {
    DateTime::from_secs(time.as_second())
}

/// A text that may be missing.
pub(super) fn text(value: Option<&str>) -> String {
    value.unwrap_or_default().to_owned()
}

/// A count that may be missing.
pub(super) fn count(value: Option<i32>) -> i64 {
    i64::from(value.unwrap_or(0))
}

/// Filters; `None` for none.
pub(super) fn filters(filters: &[Filter]) -> Option<Vec<types::Filter>> {
    let filter = |one: &Filter| {
        types::Filter::builder()
            .name(&one.name)
            .set_values(Some(one.values.clone()))
            .build()
    };
    (!filters.is_empty()).then(|| filters.iter().map(filter).collect())
}

/// A list for the SDK; `None` for an empty one.
pub(super) fn listed(values: &[String]) -> Option<Vec<String>> {
    (!values.is_empty()).then(|| values.to_vec())
}

/// Tags for EC2.
pub(super) fn sdk_tags(tags: &Tags) -> Vec<types::Tag> {
    let tag = |(key, value): (&String, &String)| types::Tag::builder().key(key).value(value).build();
    tags.iter().map(tag).collect()
}

/// Tags of EC2.
pub(super) fn tags(tags: &[types::Tag]) -> Tags {
    let pair = |tag: &types::Tag| Some((tag.key()?.to_owned(), text(tag.value())));
    tags.iter().filter_map(pair).collect()
}
