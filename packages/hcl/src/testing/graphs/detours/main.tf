terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

provider "coder" {
  alias = "other"
  url   = "http://${data.coder_parameter.host.value}"
}

data "coder_parameter" "host" {
  name    = "host"
  default = "localhost"
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

# needs the agent directly and by the disk: only the longer path is an edge
resource "terraform_data" "machine" {
  for_each   = toset(["a", "b"])
  input      = [coder_agent.main.token, terraform_data.disk.id, each.key]
  depends_on = [data.coder_parameter.host]
  lifecycle {
    ignore_changes       = [input]
    replace_triggered_by = [terraform_data.disk.id]
    postcondition {
      condition     = self.id != coder_agent.main.id
      error_message = "Both have one id."
    }
  }
  provisioner "local-exec" {
    command = "echo ${terraform_data.script.id}"
  }
}

resource "terraform_data" "disk" {
  input = [for coder_agent in [1] : coder_agent]
  triggers_replace = {
    (coder_agent.main.arch) = local.names["coder_agent.main"]
  }
}

resource "terraform_data" "script" {
  input = <<-TEXT
    %{for name in keys(local.names)}${name}%{endfor}
  TEXT
}

locals {
  names = { "coder_agent.main" = "x" }
}

resource "coder_metadata" "machine" {
  provider    = coder.other
  resource_id = terraform_data.machine["a"].id
  dynamic "item" {
    for_each = coder_agent.main.display_apps
    content {
      key   = item.key
      value = item.value.vscode
    }
  }
}

# its provider needs the parameter, so its own reference is a detour
resource "coder_env" "host" {
  provider = coder.other
  agent_id = coder_agent.main.id
  name     = "HOST"
  value    = data.coder_parameter.host.value
}
