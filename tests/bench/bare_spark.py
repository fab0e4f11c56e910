"""The bare script that ``bench start`` stands beside: session, read, write back, nothing else."""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(source).write.mode("overwrite").parquet(target)
spark.stop()
