variable "size" {
  type = number
}

data "coder_workspace" "me" {}

resource "terraform_data" "machine" {
  count = var.size
  # this module has no instances while the workspace is stopped
  input = data.coder_workspace.me.transition
}

output "size" {
  value = length(terraform_data.machine)
}
