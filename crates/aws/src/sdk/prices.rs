//! The Price List API on the SDK.

use super::errors::api_error;
use crate::pricing::PriceQuery;
use crate::services::{CallResult, PriceList};
use async_trait::async_trait;
use aws_sdk_pricing::types::{Filter, FilterType};

pub(super) struct SdkPriceList(pub(super) aws_sdk_pricing::Client);

/// Filters of GetProducts: every field must be equal to its value.
fn filters(query: &PriceQuery) -> Vec<Filter> {
    let each = query.iter().flat_map(|filter| {
        filter.values.iter().filter_map(|value| {
            let builder = Filter::builder().r#type(FilterType::TermMatch);
            builder.field(&filter.name).value(value).build().ok()
        })
    });
    each.collect()
}

#[async_trait]
impl PriceList for SdkPriceList {
    async fn products(&self, query: &PriceQuery) -> CallResult<Vec<String>> {
        let call = self.0.get_products().service_code("AmazonEC2");
        let call = call.set_filters(Some(filters(query)));
        let mut pages = call.into_paginator().page_size(100).items().send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            all.push(one.map_err(|error| api_error(&error))?);
        }
        Ok(all)
    }
}
