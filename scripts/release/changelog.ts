/** The heading of changes that no release has yet. */
const UNRELEASED = '## Unreleased';

const headingOf = (version: string, date: string) => `## ${version}, ${date}`;

/** The lines below a heading that starts with `start`, to the next heading of the same level. Undefined without that heading. */
function section(changelog: string, start: string): string | undefined {
  const lines = changelog.split('\n');
  const from = lines.findIndex((line) => line === start || line.startsWith(`${start}, `));
  if (from < 0) return undefined;
  const length = lines.slice(from + 1).findIndex((line) => line.startsWith('## '));
  return lines
    .slice(from + 1, length < 0 ? undefined : from + 1 + length)
    .join('\n')
    .trim();
}

/**
 * The changelog after a release: what was unreleased belongs to `version`. `date`: such as 2026-11-26.
 * @throws Error if nothing is unreleased
 */
export function withRelease(changelog: string, version: string, date: string): string {
  if (!section(changelog, UNRELEASED)) throw new Error(`CHANGELOG.md has nothing under "${UNRELEASED}" to release.`);
  return changelog.replace(`${UNRELEASED}\n`, () => `${UNRELEASED}\n\n${headingOf(version, date)}\n`);
}

/**
 * What the changelog says about a released version, in Markdown.
 * @throws Error if it says nothing
 */
export function notesOf(changelog: string, version: string): string {
  const notes = section(changelog, `## ${version}`);
  if (!notes) throw new Error(`CHANGELOG.md says nothing about ${version}. \`npm version\` adds its heading.`);
  return `${notes}\n`;
}
