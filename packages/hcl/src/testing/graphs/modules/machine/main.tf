terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

variable "size" {
  type = number
}

data "coder_workspace" "me" {}

resource "terraform_data" "machine" {
  count = var.size
  input = data.coder_workspace.me.transition
}

output "size" {
  value = length(terraform_data.machine)
}

variable "checked" {
  default = 1
  validation {
    condition     = var.checked > 0
    error_message = "Use a number above ${0}."
  }
}

resource "terraform_data" "checked" {
  input = var.checked
}
