//! Values that stay valid for a time.

use kerf_aws::cache::Cache;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_value_is_valid_for_its_time() {
    let cache: Cache<String, u8> = Cache::new(Duration::from_secs(60));
    cache.insert("a".to_owned(), 1);
    cache.insert_for("b".to_owned(), 2, Duration::from_secs(300));
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!((cache.get("a"), cache.get("b")), (Some(1), Some(2)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((cache.get("a"), cache.get("b")), (None, Some(2)));
    assert_eq!(cache.entries(), [("b".to_owned(), 2)]);
    cache.remove("b");
    assert_eq!(cache.get("b"), None);
}

// AWS-432
#[tokio::test(start_paused = true)]
async fn expired_values_are_removed_once_a_minute() {
    let cache: Cache<u8, u8> = Cache::new(Duration::from_secs(10));
    for key in 0..3 {
        cache.insert(key, key);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    cache.insert(3, 3);
    assert_eq!(cache.kept(), 4);
    tokio::time::sleep(Duration::from_secs(30)).await;
    cache.insert(4, 4);
    assert_eq!(cache.kept(), 1);
}
