/** A template that cannot be imported. */
export interface WrongTemplate {
  name: string;
  files: Record<string, string>;
  /** What the error of the import says. */
  error: RegExp;
  /** Whether Terraform knows where the mistake is, so that the error begins with file and line. */
  placed: boolean;
}

const HEAD = `terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
`;
const AGENT = `resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}
`;

/** A wrong main.tf, with the requirement of the provider in another file, so that its lines count from 1. */
const wrong = (name: string, main: string, error: RegExp, placed = true): WrongTemplate => ({
  name,
  files: { 'main.tf': main, 'versions.tf': HEAD },
  error,
  placed,
});

const parameter = (name: string, body: string, error: RegExp) =>
  wrong(`parameter: ${name}`, `data "coder_parameter" "p" {\n  name = "p"\n${body}\n}\n`, error);
const agent = (name: string, body: string, error: RegExp) =>
  wrong(`agent: ${name}`, `resource "coder_agent" "main" {\n  arch = "amd64"\n${body}\n}\n`, error);
const app = (name: string, body: string, error: RegExp) =>
  wrong(`app: ${name}`, `${AGENT}resource "coder_app" "a" {\n  agent_id = coder_agent.main.id\n${body}\n}\n`, error);
const script = (name: string, body: string, error: RegExp) =>
  wrong(
    `script: ${name}`,
    `${AGENT}resource "coder_script" "s" {\n  agent_id = coder_agent.main.id\n${body}\n}\n`,
    error,
  );
const metadata = (name: string, body: string, error: RegExp) =>
  wrong(`metadata: ${name}`, `resource "terraform_data" "d" {}\nresource "coder_metadata" "m" {\n${body}\n}\n`, error);
const preset = (name: string, body: string, error: RegExp) =>
  wrong(`preset: ${name}`, `data "coder_workspace_preset" "p" {\n${body}\n}\n`, error);

const ANY = /\S/;

/** Templates with one mistake each. */
export const WRONG_TEMPLATES: readonly WrongTemplate[] = [
  // the language
  wrong('an unclosed block', 'resource "terraform_data" "d" {\n', ANY),
  wrong('an unclosed text', 'locals {\n  a = "b\n}\n', ANY),
  wrong('an unknown block', 'resources "terraform_data" "d" {}\n', ANY),
  wrong('a block with too few labels', 'resource "terraform_data" {}\n', ANY),
  wrong('two blocks of one name', `${AGENT}${AGENT}`, ANY),
  wrong('two locals of one name', 'locals {\n  a = 1\n}\nlocals {\n  a = 2\n}\n', ANY),
  wrong('an unknown variable', 'locals {\n  a = var.nothing\n}\noutput "a" {\n  value = local.a\n}\n', ANY),
  wrong('an unknown local', 'output "a" {\n  value = local.nothing\n}\n', ANY),
  wrong('an unknown resource', 'output "a" {\n  value = coder_agent.nothing.id\n}\n', ANY),
  wrong('an unknown function', 'output "a" {\n  value = frobnicate("a")\n}\n', ANY),
  wrong('a function with too few arguments', 'output "a" {\n  value = substr("a")\n}\n', ANY),
  wrong('an index beyond a list', 'output "a" {\n  value = [1, 2][5]\n}\n', ANY),
  wrong('a division by zero', 'output "a" {\n  value = 1 / 0\n}\n', /infinity/, false),
  wrong('a number that is a text', 'output "a" {\n  value = 1 + "b"\n}\n', ANY),
  wrong('a text as a condition', 'output "a" {\n  value = "x" ? 1 : 2\n}\n', ANY),
  wrong('a for without a collection', 'output "a" {\n  value = [for x in 5 : x]\n}\n', ANY),
  wrong('a negative count', 'resource "terraform_data" "d" {\n  count = -1\n}\n', ANY),
  wrong('a count of text', 'resource "terraform_data" "d" {\n  count = "many"\n}\n', ANY),
  wrong('for_each of a list', 'resource "terraform_data" "d" {\n  for_each = ["a"]\n}\n', ANY),
  wrong('count and for_each', 'resource "terraform_data" "d" {\n  count    = 1\n  for_each = {}\n}\n', ANY),
  wrong(
    'an unknown argument',
    `resource "coder_agent" "main" {\n  os   = "linux"\n  arch = "amd64"\n  size = 3\n}\n`,
    ANY,
  ),
  wrong('an unknown resource type', 'resource "coder_robot" "r" {}\n', ANY),
  wrong('an unknown data source', 'data "coder_robot" "r" {}\n', ANY),
  wrong('an unknown attribute', `${AGENT}output "a" {\n  value = coder_agent.main.color\n}\n`, ANY),
  wrong(
    'a cycle',
    'resource "terraform_data" "a" {\n  input = terraform_data.b.output\n}\nresource "terraform_data" "b" {\n  input = terraform_data.a.output\n}\n',
    /Cycle: terraform_data\./,
    false,
  ),
  wrong('a resource that needs itself', 'resource "terraform_data" "a" {\n  input = terraform_data.a.id\n}\n', ANY),
  wrong(
    'a failed precondition',
    `resource "terraform_data" "d" {\n  lifecycle {\n    precondition {\n      condition     = terraform.workspace == "x"\n      error_message = "One is not more than two."\n    }\n  }\n}\n`,
    /One is not more than two/,
  ),
  wrong(
    'a validation that always fails',
    `variable "v" {\n  default = "a"\n  validation {\n    condition     = var.v == "b"\n    error_message = "The value must be b."\n  }\n}\n`,
    /must be b/,
  ),
  wrong('a wrong default of a variable', 'variable "v" {\n  type    = number\n  default = "a"\n}\n', ANY),
  wrong('a missing file', 'output "a" {\n  value = file("missing.txt")\n}\n', /missing\.txt|no file exists/i),
  wrong('wrong JSON', 'output "a" {\n  value = jsondecode("{")\n}\n', ANY),
  wrong('wrong base64', 'output "a" {\n  value = base64decode("!")\n}\n', ANY),
  wrong('a wrong regular expression', 'output "a" {\n  value = regex("(", "a")\n}\n', ANY),
  wrong(
    'a sensitive output',
    'variable "v" {\n  sensitive = true\n  default   = "a"\n}\noutput "a" {\n  value = var.v\n}\n',
    /sensitive/i,
  ),
  // modules, providers and versions
  wrong('a module without a source', 'module "m" {}\n', ANY),
  wrong('a module that is not there', 'module "m" {\n  source = "./missing"\n}\n', /lstat missing/, false),
  wrong('a module that includes itself', 'module "m" {\n  source = "./"\n}\n', ANY, false),
  {
    name: 'an unknown argument of a module',
    files: { 'main.tf': 'module "m" {\n  source = "./sub"\n  size   = 1\n}\n', 'sub/main.tf': HEAD },
    error: /size/,
    placed: true,
  },
  {
    name: 'a provider that does not exist',
    files: { 'main.tf': HEAD.replace('coder/coder', 'example.invalid/nobody/nothing') },
    error: /example\.invalid/,
    placed: false,
  },
  wrong(
    'a wrong provider source',
    'terraform {\n  required_providers {\n    odd = { source = "a/b/c/d/e" }\n  }\n}\n',
    ANY,
  ),
  wrong('a wrong version constraint', 'terraform {\n  required_version = "newest"\n}\n', ANY),
  // an import that requires another Terraform waits for a daemon that has it
  {
    name: 'a provider version that does not exist',
    files: { 'main.tf': HEAD.replace('"coder/coder" }', '"coder/coder", version = ">= 99.0" }') },
    error: /99\.0|coder\/coder/,
    placed: false,
  },
  wrong('a backend that needs settings', 'terraform {\n  backend "s3" {}\n}\n', /backend/i, false),
  wrong('an unknown backend', 'terraform {\n  backend "floppy" {}\n}\n', /backend/i, false),
  // our resources
  wrong('parameter: no name', 'data "coder_parameter" "p" {\n  default = "a"\n}\n', ANY),
  parameter('two names', '  name = "q"', /set twice/),
  parameter('an unknown type', '  type = "color"', /color|type/),
  parameter('a default of another type', '  type    = "number"\n  default = "ten"', /number|ten/),
  parameter(
    'two options of one value',
    '  default = "a"\n  option {\n    name  = "A"\n    value = "a"\n  }\n  option {\n    name  = "B"\n    value = "a"\n  }',
    ANY,
  ),
  parameter(
    'two options of one name',
    '  default = "a"\n  option {\n    name  = "A"\n    value = "a"\n  }\n  option {\n    name  = "A"\n    value = "b"\n  }',
    ANY,
  ),
  parameter('a default outside its options', '  default = "z"\n  option {\n    name  = "A"\n    value = "a"\n  }', ANY),
  parameter('an option without a value', '  option {\n    name = "A"\n  }', ANY),
  parameter('a wrong expression', '  default = "a"\n  validation {\n    regex = "("\n    error = "no"\n  }', ANY),
  parameter('an expression without an error', '  default = "a"\n  validation {\n    regex = "^a$"\n  }', ANY),
  parameter('limits of a text', '  default = "a"\n  validation {\n    min = 1\n  }', ANY),
  parameter(
    'a least value above the greatest',
    '  type    = "number"\n  default = 5\n  validation {\n    min = 9\n    max = 1\n  }',
    ANY,
  ),
  parameter(
    'a default beyond its limits',
    '  type    = "number"\n  default = 50\n  validation {\n    max = 9\n  }',
    ANY,
  ),
  parameter(
    'an unknown direction',
    '  type    = "number"\n  default = 5\n  validation {\n    monotonic = "sideways"\n  }',
    ANY,
  ),
  parameter('an ephemeral one without a default', '  ephemeral = true\n  mutable   = true', ANY),
  parameter('an ephemeral one that is immutable', '  ephemeral = true\n  default   = "a"', ANY),
  parameter('a text in place of a list', '  type    = "list(string)"\n  default = "a"', ANY),
  parameter('a form of another type', '  type      = "string"\n  form_type = "slider"\n  default   = "a"', ANY),
  parameter('an unknown form', '  form_type = "hologram"\n  default   = "a"', ANY),
  wrong(
    'two parameters of one name',
    'data "coder_parameter" "a" {\n  name    = "same"\n  default = "1"\n}\ndata "coder_parameter" "b" {\n  name    = "same"\n  default = "1"\n}\n',
    /same/,
    false,
  ),
  agent('an unknown system', '  os = "beos"', /beos|os/),
  agent('no system', '', ANY),
  agent('an unknown type of sign-in', '  os   = "linux"\n  auth = "handshake"', ANY),
  agent(
    'metadata of one key',
    '  os = "linux"\n  metadata {\n    key      = "a"\n    script   = "a"\n    interval = 1\n  }\n  metadata {\n    key      = "a"\n    script   = "b"\n    interval = 1\n  }',
    ANY,
  ),
  agent('an unknown behavior', '  os = "linux"\n  startup_script_behavior = "sometimes"', ANY),
  app('an empty slug', '  slug = ""', ANY),
  app('a wrong slug', '  slug = "Not A Slug"', ANY),
  app('an address and a command', '  slug    = "a"\n  url     = "http://localhost"\n  command = "top"', ANY),
  app('an unknown share', '  slug  = "a"\n  url   = "http://localhost"\n  share = "everybody"', ANY),
  app(
    'a health check without an address',
    '  slug = "a"\n  url  = "http://localhost"\n  healthcheck {\n    interval  = 1\n    threshold = 1\n  }',
    ANY,
  ),
  app('a command of an external app', '  slug     = "a"\n  command  = "top"\n  external = true', ANY),
  wrong(
    'two apps of one slug',
    `${AGENT}resource "coder_app" "a" {\n  agent_id = coder_agent.main.id\n  slug     = "same"\n  url      = "http://localhost"\n}\nresource "coder_app" "b" {\n  agent_id = coder_agent.main.id\n  slug     = "same"\n  url      = "http://localhost"\n}\n`,
    /same/,
    false,
  ),
  script('nothing that starts it', '  display_name = "S"\n  script       = "true"', ANY),
  script('a wrong time', '  display_name = "S"\n  script       = "true"\n  cron         = "often"', ANY),
  script(
    'a negative timeout',
    '  display_name = "S"\n  script       = "true"\n  run_on_start = true\n  timeout      = -5',
    ANY,
  ),
  metadata(
    'two items of one key',
    '  resource_id = terraform_data.d.id\n  item {\n    key   = "a"\n    value = "b"\n  }\n  item {\n    key   = "a"\n    value = "c"\n  }',
    ANY,
  ),
  metadata('no resource', '  item {\n    key   = "a"\n    value = "b"\n  }', ANY),
  preset('no name', '  parameters = {}', ANY),
  preset(
    'a negative pool',
    '  name       = "p"\n  parameters = { a = "b" }\n  prebuilds {\n    instances = -1\n  }',
    ANY,
  ),
  preset(
    'a wrong time of a pool',
    '  name       = "p"\n  parameters = { a = "b" }\n  prebuilds {\n    instances = 1\n    scheduling {\n      timezone = "Moon/Base"\n      schedule {\n        cron      = "* 8-18 * * 1-5"\n        instances = 2\n      }\n    }\n  }',
    ANY,
  ),
];
