/**
 * The links that may contain a session token. An editor knows from the beginning of such a link that it belongs to its
 * client for this platform. Other links of the same editors clone and run what the link says, or open other extensions.
 * The client sends the token to the server in the link's `url`, so that must be this one.
 */

/** Editors with the extension of the published VS Code client: those of upstream's modules. */
const WITH_EXTENSION = [
  'antigravity',
  'cursor',
  'devin',
  'kiro',
  'positron',
  'vscode',
  'vscode-insiders',
  'windsurf',
] as const;

/** The beginnings of links. What follows are parameters. */
const BEGINNINGS: readonly string[] = [
  ...WITH_EXTENSION.flatMap((scheme) => [
    `${scheme}://coder.coder-remote/open?`,
    `${scheme}://coder.coder-remote/openDevContainer?`,
  ]),
  'jetbrains-gateway://connect#type=coder&',
  'jetbrains://gateway/coder?',
  'jetbrains://gateway/com.coder.toolbox?',
];

/** The beginnings for a message: each ends before its parameters. */
export const EDITOR_LINKS: readonly string[] = BEGINNINGS.filter((each) => !each.includes('openDevContainer')).map(
  (each) => each.replace(/[?#].*$/, ''),
);

/** Whether a link may contain a token for the server at `accessUrl`. */
export function isEditorLink(link: string, accessUrl: string): boolean {
  const beginning = BEGINNINGS.find((each) => link.startsWith(each));
  if (beginning === undefined || /[\s\p{Cc}\\]/u.test(link)) return false;
  // an editor may also read what follows a "#"
  const given = link
    .slice(beginning.length)
    .split(/[?#]/)
    .flatMap((part) => [...new URLSearchParams(part)]);
  return given.every(([name, value]) => {
    const key = name.trim().toLowerCase();
    if (key === 'type') return false;
    return key !== 'url' || isOf(value, accessUrl);
  });
}

const isOf = (url: string, accessUrl: string): boolean =>
  URL.canParse(url) && new URL(url).origin === new URL(accessUrl).origin;
