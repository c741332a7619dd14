terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

module "machine" {
  source = "./machine"
  count  = data.coder_workspace.me.start_count
  size   = 2
}

module "disk" {
  source   = "./disk"
  for_each = toset(["x", "y"])
  running  = data.coder_workspace.me.transition != "stop"
  name     = each.key
}

output "sizes" {
  value = module.machine[*].size
}

output "attached" {
  value = [for disk in module.disk : disk.attached]
}
