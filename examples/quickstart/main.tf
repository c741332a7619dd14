terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

# People choose these values when they create a workspace.

data "coder_parameter" "content" {
  name         = "content"
  display_name = "Website"
  description  = "What the folder of the website starts with."
  icon         = "/emojis/1f310.png"
  default      = "page"
  mutable      = false
  form_type    = "radio"
  order        = 1
  option {
    name        = "A page"
    description = "One HTML page, to change and to look at."
    value       = "page"
  }
  option {
    name        = "Empty"
    description = "The browser lists the files that you add."
    value       = "empty"
  }
}

# The form shows this field only while the other one has the value "page".
data "coder_parameter" "title" {
  count        = data.coder_parameter.content.value == "page" ? 1 : 0
  name         = "title"
  display_name = "Title"
  description  = "The title of the page."
  default      = "Hello"
  mutable      = false
  order        = 2
  validation {
    regex = "^[^<>&\"'\\\\]{1,60}$"
    error = "Use up to 60 characters without quotes, angle brackets, ampersands and backslashes."
  }
}

# Presets are values that belong together, under a name.

data "coder_workspace_preset" "page" {
  name        = "Website"
  description = "A page to change, with its preview."
  icon        = "/emojis/1f310.png"
  default     = true
  parameters = {
    content = "page"
    title   = "Hello"
  }

  # A pool of workspaces that are ready before anyone asks. With instances = 1 a workspace of this preset takes a second.
  prebuilds {
    instances = 0
  }
}

data "coder_workspace_preset" "empty" {
  name        = "Empty folder"
  description = "Only a terminal and an empty folder."
  icon        = "/emojis/1f4c1.png"
  parameters = {
    content = "empty"
  }
}

locals {
  # The machine has one loopback address for all workspaces, so each has its own port, made from its id.
  port = 20000 + parseint(substr(sha256(data.coder_workspace.me.id), 0, 6), 16) % 12000
}

resource "coder_agent" "main" {
  os   = data.coder_provisioner.me.os
  arch = data.coder_provisioner.me.arch

  metadata {
    key          = "load"
    display_name = "Load average"
    script       = "cut -d' ' -f1-3 /proc/loadavg"
    interval     = 10
    timeout      = 1
  }
  metadata {
    key          = "disk"
    display_name = "Files"
    script       = "du -sh --exclude=.agent \"$HOME\" 2>/dev/null | cut -f1"
    interval     = 60
    timeout      = 5
  }
}

# The app in the browser: a script that starts it, and the place where it listens.

resource "coder_script" "website" {
  agent_id     = coder_agent.main.id
  display_name = "Website"
  icon         = "/emojis/1f310.png"
  run_on_start = true
  script = templatefile("${path.module}/website.sh.tftpl", {
    port   = local.port
    title  = one(data.coder_parameter.title[*].value)
    server = base64encode(file("${path.module}/website.pl"))
  })
}

resource "coder_app" "website" {
  agent_id     = coder_agent.main.id
  slug         = "website"
  display_name = "Website"
  icon         = "/emojis/1f310.png"
  url          = "http://localhost:${local.port}/"
  healthcheck {
    url       = "http://localhost:${local.port}/"
    interval  = 2
    threshold = 15
  }
}

# The machine: a folder and a process. The starter template `local` consists of these.

# The folder survives a stop. The process does not. The folder has the id of the workspace, because name and owner change
# when somebody takes a workspace of a pool.
resource "terraform_data" "home" {
  input = "${pathexpand("~")}/workspaces/${data.coder_workspace.me.id}"

  provisioner "local-exec" {
    command = "mkdir -p '${self.input}'"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm -rf \"$(readlink -f '${self.input}')\" '${self.input}'"
  }
}

resource "terraform_data" "process" {
  count = data.coder_workspace.me.start_count

  triggers_replace = coder_agent.main.id
  input            = terraform_data.home.input

  # The agent gets its own session, so that it outlives the build, and its own environment, so that it inherits nothing
  # from the build. Its files are in the home folder, so that they are deleted with the workspace and no other workspace
  # of the machine shares them.
  provisioner "local-exec" {
    command = <<-EOT
      umask 022
      mkdir -p "$DIR" && cd "$DIR" && rm -rf .agent .agent.pid || exit 1
      setsid env -i PATH="$PATH" HOME="$DIR" BINARY_DIR="$DIR/.agent" \
        CODER_AGENT_SCRIPT_DATA_DIR="$DIR/.agent" CODER_AGENT_TOKEN="$TOKEN" \
        sh -c 'echo $$ > .agent.pid; exec sh -c "$0"' "$INIT_SCRIPT" > .agent.log 2>&1 < /dev/null &
      for i in $(seq 100); do [ -s .agent.pid ] && exit 0; sleep 0.1; done
      echo "The agent did not start:" >&2; cat .agent.log >&2; exit 1
    EOT
    environment = {
      DIR         = self.input
      TOKEN       = coder_agent.main.token
      INIT_SCRIPT = coder_agent.main.init_script
    }
  }

  # The agent has ten seconds to run its shutdown scripts.
  provisioner "local-exec" {
    when    = destroy
    command = <<-EOT
      case $(LC_ALL=C ls "$DIR" 2>&1 > /dev/null) in *ermission*) echo "Cannot read $DIR." >&2; exit 1 ;; esac
      pid=$(cat "$DIR/.agent.pid" 2>/dev/null) || exit 0
      kill -TERM "-$pid" 2>/dev/null
      for i in $(seq 100); do kill -0 "-$pid" 2>/dev/null || break; sleep 0.1; done
      kill -KILL "-$pid" 2>/dev/null
      case $(LC_ALL=C kill -0 "-$pid" 2>&1) in *ermitted*) echo "Another user runs process $pid of $DIR." >&2; exit 1 ;; esac
      rm -f "$DIR/.agent.pid"
    EOT
    environment = {
      DIR = self.input
    }
  }
}
