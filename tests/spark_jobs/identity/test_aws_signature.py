from datetime import UTC, datetime

from spark_jobs.identity.aws_signature import AwsKeys, SignatureScope, signature

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def test_a_signature_is_that_of_amazon_s_example() -> None:
    """The request of "Create a signed request" in AWS's documentation of IAM: ListUsers in August 2015."""
    request = (
        "GET\n/\nAction=ListUsers&Version=2010-05-08\ncontent-type:application/x-www-form-urlencoded; charset=utf-8\n"
        "host:iam.amazonaws.com\nx-amz-date:20150830T123600Z\n\ncontent-type;host;x-amz-date\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    scope = SignatureScope("us-east-1", "iam", datetime(2015, 8, 30, 12, 36, tzinfo=UTC))
    assert signature(SECRET, scope, request) == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"


def test_the_text_of_keys_has_none() -> None:
    assert repr(AwsKeys("AKIDEXAMPLE", SECRET, "session")) == "AwsKeys()"
