{
 "dfmVersion": "1.1",
 "taskInfo": {
  "name": "people",
  "operation": "dataProduced"
 },
 "fileInfo": {
  "name": "story",
  "extension": "csv",
  "content": "changes",
  "recordCount": 8,
  "errorCount": 0
 },
 "formatInfo": {
  "format": "delimited",
  "options": {
   "recordDelimiter": "\n",
   "fieldDelimiter": ",",
   "nullValue": "",
   "quoteChar": "\"",
   "escapeChar": ""
  }
 },
 "dataInfo": {
  "sourceSchema": "hr",
  "sourceTable": "people",
  "targetSchema": "",
  "targetTable": "people__ct",
  "tableVersion": 0,
  "columns": [
   {
    "ordinal": 1,
    "name": "header__change_seq",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 2,
    "name": "header__change_oper",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 3,
    "name": "header__change_mask",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 4,
    "name": "header__stream_position",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 5,
    "name": "header__operation",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 6,
    "name": "header__transaction_id",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 7,
    "name": "header__timestamp",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 8,
    "name": "idu",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 1
   },
   {
    "ordinal": 9,
    "name": "fname",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 10,
    "name": "lname",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 11,
    "name": "mail",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 12,
    "name": "c05",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 13,
    "name": "c06",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 14,
    "name": "c07",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 15,
    "name": "c08",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 16,
    "name": "c09",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   },
   {
    "ordinal": 17,
    "name": "c10",
    "type": "STRING",
    "length": 30,
    "precision": 0,
    "scale": 0,
    "primaryKeyPos": 0
   }
  ]
 }
}