// Finds phrases that readers stumble over, in code, tests, docs and scripts: `node scripts/words.ts [path…]`.
// It holds the mechanical part of the writing rules; whether a sentence reads well is for a person to judge.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** A phrase, and what to write instead. */
const PHRASES: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/\bcan not\b/i, 'cannot'],
  [/\b(?:told|tell|tells|telling)\b/i, 'say who reports, sends, shows or announces what'],
  [/\bheed(?:s|ed|ing)?\b/i, 'take effect, apply, ignore'],
  [/\b(?:hear|hears|heard)\b/i, 'receive, notice'],
  [/\banew\b/i, 'again'],
  [/(?<!\bthere )\b(?:is|are|was|were) (?:no|none)\b(?! (?:longer|more|one)\b)/i, 'is not a …, there is no …'],
  [/\bsuch as are\b/i, 'that are'],
  [/\bin (?:the|his|its|their) place of\b/i, 'instead of'],
  [
    /\b(?:with|by|of|for|from|in|on|after|before|beside|beyond|into) (?:what|whom)\b(?! (?:is|it|the|they|we|if)\b.*\?)/i,
    'name the thing',
  ],
  [/\bby which\b/i, 'with, through'],
  [/\bwhoever\b|\bwhom\b/i, 'name the person: a client, a caller, anyone who'],
  [/\b(?:ways?) in(?:to)?\b(?! which)/i, 'connection, access'],
  [/\blog-ins?\b/i, 'sign-in'],
  [/\btime-outs?\b/i, 'timeout'],
  [
    /\bpublished (?:platform|program|client|daemon|agent|provider|server|wire|contract|protocol|form|shape|route|name|CLI|command|one)s?\b/i,
    'upstream',
  ],
  [/\bhas (?:it|them|its|their) (?:of|from)\b/i, 'gets it from'],
  [/\bthan none\b/i, 'greater than 0'],
  [/\bat once\b/i, 'immediately, or at the same time'],
  [/\bMOST_[A-Z]/, 'MAX_'],
  [/\bof (?:its|their|our) own(?=[.,:;)]|$)/i, 'its own …, a separate …'],
  [/\bbeside (?:an?|the|its|their|them|it|other|one)\b/i, 'next to, compared with, while'],
];

/** Other people's words, generated text, and the files that quote the phrases. */
const IGNORED =
  /\/gen\/|\/migrations\/|^scripts\/words|\/upstream\/.*\.(json|txt)$|package-lock\.json|\.(png|svg|golden|tar|zip|pem|der|crt|key|binpb)$|^LICENSE/;
const READ = /\.(ts|tsx|js|mjs|sh|md|tf|yml|yaml|ps1|html|css|sql|service)$|^\.ci\/run$/;

export interface Finding {
  file: string;
  line: number;
  text: string;
  instead: string;
}

/** The phrases in one text. A line that ends in `words: quoted` is somebody else's text and stays. */
export function findPhrases(file: string, text: string): Finding[] {
  return text.split('\n').flatMap((line, i) => {
    if (line.endsWith('words: quoted')) return [];
    return PHRASES.filter(([phrase]) => phrase.test(line)).map(([, instead]) => ({
      file,
      line: i + 1,
      text: line.trim(),
      instead,
    }));
  });
}

function main(paths: readonly string[]): void {
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--', ...paths], { encoding: 'utf8', maxBuffer: 1 << 26 });
  const files = stdout.split('\0').filter((file) => READ.test(file) && !IGNORED.test(file));
  const findings = files.flatMap((file) => findPhrases(file, readFileSync(file, 'utf8')));
  for (const { file, line, text, instead } of findings) console.log(`${file}:${line}: ${text}\n    write: ${instead}`);
  console.log(`${files.length} files, ${findings.length} phrases to rewrite`);
  process.exitCode = findings.length > 0 ? 1 : 0;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main(process.argv.slice(2));
