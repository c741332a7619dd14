terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

provider "coder" {
  url = local.url
}

locals {
  url    = var.host
  folder = var.folder
  size   = module.machine[0].size
}

variable "host" {
  default = "http://localhost"
}

variable "folder" {
  default = "/"
  validation {
    condition     = length(var.folder) > 0
    error_message = "Name a folder."
  }
}

data "coder_workspace" "me" {}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  dir  = local.folder
}

resource "coder_app" "editor" {
  agent_id = coder_agent.main.id
  slug     = "editor"
  url      = "http://localhost:${local.size}"
}

module "machine" {
  source = "./machine"
  count  = data.coder_workspace.me.start_count
  size   = 2
}

module "late" {
  source     = "./late"
  agent_id   = coder_agent.main.id
  depends_on = [coder_app.editor]
}

resource "terraform_data" "user" {
  input = module.late.script
}

resource "terraform_data" "after" {
  depends_on = [module.late]
}

output "sizes" {
  value = [for machine in module.machine : machine.size]
}

output "splat" {
  value = module.machine[*].size
}

output "folder" {
  value = local.folder
  precondition {
    condition     = terraform_data.user.id != ""
    error_message = "It has no id."
  }
}
