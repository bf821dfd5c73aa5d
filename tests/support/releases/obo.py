"""A small OBO file, frame by frame."""

HEADER = """\
format-version: 1.2
data-version: hp/releases/2025-01-16
synonymtypedef: layperson "layperson term"
synonymtypedef: abbreviation "abbreviation"
synonymtypedef: OMO:0003000 "abbreviation"
synonymtypedef: HP:0034334 "allelic_requirement"
default-namespace: human_phenotype
ontology: hp.obo
property_value: dc:title "Human Phenotype Ontology" xsd:string

"""
SEIZURE = """\
[Term]
id: HP:0001250
name: Seizure
alt_id: HP:0002279
def: "An intermittent abnormality." [PMID:1]
synonym: "Epilepsy" RELATED layperson []
synonym: "Epileptic seizure" EXACT [ORCID:0000-0001]
synonym: "SZ" EXACT abbreviation []
synonym: "Sz." RELATED OMO:0003000 []
synonym: "Fit" BROAD []
synonym: "Grand mal" NARROW []
xref: SNOMEDCT_US:128613002
xref: UMLS:C0036572 "Seizures"
is_a: HP:0012638 {source="x"} ! Abnormal nervous system physiology
relationship: part_of HP:0000707 ! Abnormality of the nervous system

"""
PARENT = "[Term]\nid: HP:0012638\nname: Abnormal nervous system physiology\n\n"
OLD = """\
[Term]
id: HP:0000057
name: obsolete Clitoromegaly
synonym: "Big" EXACT []
alt_id: HP:0000056
xref: UMLS:C1
is_a: HP:0012638
is_obsolete: true
replaced_by: HP:0008665

"""
TYPEDEF = "[Typedef]\nid: part_of\nname: part of\n"
