// The icons that templates name: /icon/NAME.svg and /emojis/CODE.png. The names are upstream's, so that its templates
// and modules work unchanged. Logos come from simple-icons. Everything else is a neutral glyph.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import dynamicIconImports from 'lucide-react/dynamicIconImports.mjs';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { packageHome } from '../executable/packages.ts';

/** Logos whose name is also their slug in simple-icons. */
const LOGOS = `almalinux anaconda android ansible anthropic apple archlinux atlassian auth0 bitbucket bun caddy centos
  claude clion cloudflare clojure confluence consul cursor databricks datadog datagrip debian deno discord django docker
  dotnet elasticsearch elixir fedora figma firefox flask git gitea github gitlab go goland google googlechrome grafana
  hashicorp haskell helm hetzner huggingface javascript jenkins jetbrains jfrog jira julia jupyter keycloak kotlin
  kubernetes laravel linux lua mariadb mongodb mysql n8n neovim nextflow nginx nixos nomad npm nvidia okta ollama openjdk
  opencode openstack opensuse opentofu packer pagerduty perplexity perl php phpstorm pnpm podman portainer prometheus
  proxmox pulumi pycharm python pytorch qemu r rabbitmq raspberrypi react redhat redis rider rockylinux ruby rubymine rust
  rustdesk scala sentry snowflake spring sqlite svelte swift tailscale tensorflow terraform tmux typescript ubuntu vault
  vercel vim vmware vscodium webstorm windsurf wordpress yarn zendesk zig zsh`.split(/\s+/);

/** Names of logos whose slug differs. */
const RENAMED: Readonly<Record<string, string>> = {
  airflow: 'apacheairflow',
  'android-studio': 'androidstudio',
  'apache-guacamole': 'apacheguacamole',
  'apple-grey': 'apple',
  'argo-workflows': 'argo',
  conda: 'anaconda',
  cpp: 'cplusplus',
  'digital-ocean': 'digitalocean',
  do: 'digitalocean',
  'docker-white': 'docker',
  'figma-black': 'figma',
  'figma-color': 'figma',
  'figma-monochrome': 'figma',
  'fly.io': 'flydotio',
  gcp: 'googlecloud',
  gemini: 'googlegemini',
  'gemini-monochrome': 'googlegemini',
  'gemini-white': 'googlegemini',
  'github-copilot': 'githubcopilot',
  'github-gradient': 'github',
  'grafana-labs': 'grafana',
  idea: 'intellijidea',
  intellij: 'intellijidea',
  k8s: 'kubernetes',
  'jetbrains-toolbox': 'jetbrains',
  nix: 'nixos',
  node: 'nodedotjs',
  nodejs: 'nodedotjs',
  postgres: 'postgresql',
  rhel: 'redhat',
  vsphere: 'vmware',
  vue: 'vuedotjs',
  zed: 'zedindustries',
};

/** Legible on light and dark pages. */
const SLATE = '#7a7f87';
const BLUE = '#2f81d6';
const ORANGE = '#d97a1f';
const VIOLET = '#8a63d2';
const GREEN = '#2f9e5b';
const RED = '#d0503f';

/** Names of all other icons → a glyph of lucide and its color. Owners of some logos do not want them in icon sets. */
const GLYPHS: Readonly<Record<string, readonly [glyph: keyof typeof dynamicIconImports, color: string]>> = {
  aider: ['bot', GREEN],
  'amazon-q': ['sparkles', VIOLET],
  amp: ['waypoints', RED],
  antigravity: ['rocket', BLUE],
  appcode: ['code-xml', BLUE],
  auggie: ['bot', GREEN],
  'auto-dev-server': ['rocket', GREEN],
  aws: ['cloud', ORANGE],
  'aws-bedrock': ['brain', GREEN],
  'aws-dark': ['cloud', ORANGE],
  'aws-light': ['cloud', ORANGE],
  'aws-monochrome': ['cloud', SLATE],
  azure: ['cloud', BLUE],
  'azure-devops': ['infinity', BLUE],
  'box-emoji': ['package', ORANGE],
  cmux: ['layout-grid', SLATE],
  code: ['code-xml', BLUE],
  'code-insiders': ['code-xml', GREEN],
  coder: ['square-terminal', SLATE],
  container: ['container', BLUE],
  copyparty: ['hard-drive', GREEN],
  cpu: ['cpu', SLATE],
  database: ['database', SLATE],
  dataspell: ['beaker', GREEN],
  dcv: ['screen-share', ORANGE],
  delta: ['waypoints', SLATE],
  desktop: ['monitor', SLATE],
  devcontainers: ['box', BLUE],
  devin: ['bot', BLUE],
  disk: ['hard-drive', SLATE],
  dotfiles: ['file-cog', SLATE],
  exoscale: ['cloud', RED],
  filebrowser: ['folder-open', BLUE],
  firecrawl: ['globe', ORANGE],
  fleet: ['rocket', VIOLET],
  folder: ['folder', SLATE],
  gateway: ['waypoints', VIOLET],
  goose: ['bird', SLATE],
  image: ['image', SLATE],
  java: ['coffee', ORANGE],
  jax: ['flask-conical', VIOLET],
  kasmvnc: ['monitor-play', BLUE],
  kiro: ['bot', VIOLET],
  lakefs: ['waves', GREEN],
  lxc: ['container', SLATE],
  matlab: ['activity', ORANGE],
  memory: ['memory-stick', SLATE],
  microsoft: ['grid-2x2', BLUE],
  'microsoft-teams': ['message-square', VIOLET],
  mssql: ['database', RED],
  mux: ['layout-grid', SLATE],
  novnc: ['screen-share', GREEN],
  openai: ['sparkles', SLATE],
  openhands: ['bot', ORANGE],
  personalize: ['user-round-cog', SLATE],
  positron: ['code-xml', BLUE],
  projector: ['monitor-play', VIOLET],
  rdp: ['screen-share', BLUE],
  rstudio: ['activity', BLUE],
  rustrover: ['code-xml', ORANGE],
  settings: ['settings', SLATE],
  slack: ['hash', VIOLET],
  'sourcegraph-amp': ['waypoints', RED],
  tasks: ['list-checks', SLATE],
  teleport: ['key-round', VIOLET],
  terminal: ['terminal', SLATE],
  theia: ['code-xml', SLATE],
  vm: ['server', SLATE],
  vnc: ['screen-share', SLATE],
  widgets: ['layout-grid', SLATE],
  windows: ['grid-2x2', BLUE],
};

/** An entry of /icon/icons.json, the list for pages that show icons to choose from. */
interface ListedIcon {
  name: string;
  url: string;
  /** Words to find it by. */
  title: string;
}

/** Every icon by its path, and the list of all. */
export async function readIcons(): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>();
  const list: ListedIcon[] = [];
  const add = (name: string, title: string, svg: string) => {
    files.set(`/icon/${name}.svg`, Buffer.from(svg));
    list.push({ name, url: `/icon/${name}.svg`, title });
  };
  const home = packageHome('simple-icons');
  const known = JSON.parse(readFileSync(join(home, 'data/simple-icons.json'), 'utf8')) as {
    title: string;
    slug: string;
    hex: string;
  }[];
  const bySlug = new Map(known.map((logo) => [logo.slug, logo]));
  for (const [name, slug] of [...LOGOS.map((name) => [name, name] as const), ...Object.entries(RENAMED)]) {
    const logo = bySlug.get(slug);
    if (!logo) throw new Error(`simple-icons has no "${slug}": change scripts/dashboard/icons.ts.`);
    const svg = readFileSync(join(home, 'icons', `${slug}.svg`), 'utf8');
    add(name, logo.title, svg.replace('<svg ', `<svg fill="${legible(logo.hex)}" `));
  }
  for (const [name, [glyph, color]] of Object.entries(GLYPHS)) {
    const { default: Glyph } = await dynamicIconImports[glyph]();
    add(name, name.replaceAll('-', ' '), renderToStaticMarkup(createElement(Glyph, { color })));
  }
  list.sort((a, b) => (a.name < b.name ? -1 : 1));
  return files.set('/icon/icons.json', Buffer.from(JSON.stringify(list)));
}

/** A logo's color, or slate for one that a white or a black page would hide. */
function legible(hex: string): string {
  const channel = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4);
  return luminance < 0.045 || luminance > 0.8 ? SLATE : `#${hex}`;
}

/** Every emoji's SVG by its code points. */
export function readEmojis(): Record<string, string> {
  const home = packageHome('@twemoji/svg');
  const names = readdirSync(home).filter((name) => /^[0-9a-f-]+\.svg$/.test(name));
  return Object.fromEntries(names.map((name) => [name.slice(0, -4), readFileSync(join(home, name), 'utf8')]));
}
