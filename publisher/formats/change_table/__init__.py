"""Change tables (``…__ct``) of Qlik Replicate and Qlik Talend Data Integration."""
