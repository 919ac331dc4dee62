//! Made-up clinical notes, the same in every run: text that codecs meet, without anybody's data.

use crate::random::Random;
use crate::sample::Lengths;

const SITES: [&str; 24] = [
    "sigmoid colon",
    "left breast, upper outer quadrant",
    "prostate, right apex",
    "gastric antrum",
    "skin of the forearm",
    "right upper lobe",
    "thyroid, left lobe",
    "sentinel lymph node",
    "liver, segment VI",
    "urinary bladder dome",
    "endometrium",
    "cervix at 6 o'clock",
    "left kidney, lower pole",
    "oesophagus at 32 cm",
    "pancreatic tail",
    "parotid gland",
    "bone marrow, iliac crest",
    "terminal ileum",
    "rectum at 8 cm",
    "right ovary",
    "mediastinum",
    "tongue, lateral border",
    "gallbladder fundus",
    "soft tissue of the thigh",
];
const FINDINGS: [&str; 24] = [
    "tubular adenoma with low grade dysplasia",
    "invasive carcinoma of no special type",
    "chronic active inflammation",
    "intestinal metaplasia without dysplasia",
    "a well circumscribed nodule",
    "dense lymphocytic infiltrate",
    "acinar adenocarcinoma, Gleason 3 + 4",
    "ground glass opacity",
    "papillary urothelial neoplasm",
    "reactive follicular hyperplasia",
    "coagulative necrosis",
    "squamous cell carcinoma, keratinising",
    "perineural spread",
    "granulomas without central necrosis",
    "clear cell change",
    "moderate macrovesicular steatosis",
    "bridging fibrosis",
    "simple cyst",
    "hyperplastic polyp",
    "compound naevus",
    "marked nuclear pleomorphism",
    "extracellular mucin",
    "subsegmental atelectasis",
    "no sign of malignancy",
];
const STAINS: [&str; 12] = [
    "Ki-67",
    "oestrogen receptor",
    "HER2",
    "p63",
    "CK20",
    "CDX2",
    "TTF-1",
    "S100",
    "CD34",
    "PAS",
    "synaptophysin",
    "PD-L1 (22C3)",
];
const REMARKS: [&str; 16] = [
    "Correlation with the clinical findings is advised.",
    "Deeper sections were examined and show the same picture.",
    "The patient was informed by telephone.",
    "Follow-up imaging in six months.",
    "Discussed at the tumour board; surgery is planned.",
    "Margins are free as far as they can be judged.",
    "No prior material is available for comparison.",
    "Tissue was reserved for sequencing.",
    "History of smoking, 30 pack years.",
    "Allergic to penicillin; metformin paused before contrast.",
    "Fixation was poor, which limits the assessment.",
    "The frozen section agrees with the final diagnosis.",
    "An addendum follows when the stains are ready.",
    "Vital signs stable, discharged the next morning.",
    "Second opinion requested from the referring centre.",
    "Lymphovascular invasion is not seen.",
];

// Stems and endings make a thousand words, so that free text repeats itself about as little as
// people's does.
const STEMS: [&str; 40] = [
    "hepat", "nephr", "gastr", "derm", "oste", "card", "neur", "cyst", "aden", "chondr", "fibr",
    "lip", "my", "angi", "bronch", "pleur", "col", "enter", "splen", "thyr", "mast", "metr",
    "oophor", "prostat", "rhin", "ot", "laryng", "pharyng", "trache", "phleb", "arter", "lymph",
    "ker", "melan", "leuk", "erythr", "thromb", "hist", "cyt", "spondyl",
];
const ENDINGS: [&str; 25] = [
    "itis", "osis", "oma", "opathy", "ectomy", "otomy", "oscopy", "ogram", "algia", "emia",
    "oplasia", "omegaly", "ocele", "orrhagia", "al", "ic", "oid", "ogenic", "olysis", "opexy",
    "orrhaphy", "ostomy", "otrophic", "ostasis", "oblast",
];
const PLAIN: [&str; 48] = [
    "the",
    "of",
    "and",
    "with",
    "in",
    "no",
    "is",
    "was",
    "to",
    "a",
    "for",
    "on",
    "at",
    "by",
    "patient",
    "without",
    "from",
    "has",
    "after",
    "left",
    "right",
    "mild",
    "since",
    "reports",
    "known",
    "pain",
    "noted",
    "which",
    "over",
    "days",
    "weeks",
    "mg",
    "daily",
    "under",
    "increased",
    "given",
    "seen",
    "two",
    "not",
    "were",
    "stable",
    "acute",
    "about",
    "last",
    "again",
    "during",
    "started",
    "both",
];

/// Notes with lengths between the two bounds, each as likely as any other.
#[must_use]
pub fn notes(count: usize, lengths: Lengths, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let one = |number| {
        let length = usize::try_from(random.within(lengths.0, lengths.1)).unwrap_or(0);
        note(&mut random, number, length)
    };
    (0..count).map(one).collect()
}

fn note(random: &mut Random, number: usize, length: usize) -> Vec<u8> {
    let mut text = format!(
        "Case S26-{number:06}. Patient of {} years, {}.\n",
        random.within(18, 96),
        pick(random, &["female", "male"]),
    );
    while text.len() < length {
        match random.below(4) {
            0 => text.push_str(&sentence(random)),
            _ => free_text(random, &mut text),
        }
        text.push(if random.below(6) == 0 { '\n' } else { ' ' });
    }
    // All of it is ASCII, so any place is the end of a character.
    text.truncate(length);
    text.into_bytes()
}

fn sentence(random: &mut Random) -> String {
    let (site, finding) = (pick(random, &SITES), pick(random, &FINDINGS));
    let (first, second) = (random.within(2, 60), random.within(1, 99));
    match random.below(8) {
        0 => format!("Specimen {second}: {site}, {first} x {} mm.", random.within(2, 40)),
        1 => format!("Sections of the {site} show {finding}."),
        2 => format!("There is {finding} in {first} of {} fields.", first + second),
        3 => format!("{}: positive in {second}% of cells.", pick(random, &STAINS)),
        4 => format!("{}: negative, controls adequate.", pick(random, &STAINS)),
        5 => format!("Diagnosis, {site}: {finding}, largest extent {first}.{} mm.", second % 10),
        6 => format!(
            "Compared with 20{:02}-{:02}-{:02}, the {site} is unchanged.",
            random.within(10, 25),
            random.within(1, 12),
            random.within(1, 28)
        ),
        _ => pick(random, &REMARKS).to_owned(),
    }
}

fn free_text(random: &mut Random, text: &mut String) {
    for place in 0..random.within(5, 16) {
        if place > 0 {
            text.push(' ');
        }
        match random.below(20) {
            0..10 => {
                // The first of the words are the commonest.
                let most = random.within(1, u64::try_from(PLAIN.len()).unwrap_or(1));
                text.push_str(PLAIN[usize::try_from(random.below(most)).unwrap_or(0)]);
            }
            10 => text.push_str(&random.within(1, 500).to_string()),
            _ => {
                text.push_str(pick(random, &STEMS));
                text.push_str(pick(random, &ENDINGS));
            }
        }
    }
    text.push('.');
}

fn pick<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    let place = random.below(u64::try_from(words.len()).unwrap_or(1));
    words[usize::try_from(place).unwrap_or(0)]
}
